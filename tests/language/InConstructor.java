// SPDX-License-Identifier: MIT
// A constructor.
import java.nio.ByteBuffer;

public class InConstructor {
    private final ByteBuffer block;

    InConstructor(int bytes) {
        block = ByteBuffer.allocateDirect(bytes); // PLANTED InConstructor.<init>
    }

    static void step() {
        for (int at = 0; at < Turns.BLOCKS; at++) {
            Turns.keep(new InConstructor(Turns.BLOCK_BYTES));
        }
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InConstructor::step);
    }
}
