// SPDX-License-Identifier: MIT
// A method that is compiled into its callers, in a loop that is compiled while it runs.
import java.nio.ByteBuffer;

public class InHot {
    private static long sum;

    static void leakHot(int at) {
        if (at % 10_000 == 0) {
            Turns.keep(ByteBuffer.allocateDirect(Turns.BLOCK_BYTES)); // PLANTED InHot.leakHot
        }
        sum += at;
    }

    static void middle(int at) {
        leakHot(at);
    }

    static void step() {
        for (int at = 0; at < Turns.BLOCKS * 10_000; at++) {
            middle(at);
        }
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InHot::step);
    }
}
