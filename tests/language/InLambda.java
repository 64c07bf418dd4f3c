// SPDX-License-Identifier: MIT
// A lambda.
import java.nio.ByteBuffer;
import java.util.function.IntFunction;

public class InLambda {
    static void step() {
        IntFunction<ByteBuffer> make =
            bytes ->
                ByteBuffer.allocateDirect(bytes); // PLANTED InLambda.lambda$step$0
        for (int at = 0; at < Turns.BLOCKS; at++) {
            Turns.keep(make.apply(Turns.BLOCK_BYTES));
        }
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InLambda::step);
    }
}
