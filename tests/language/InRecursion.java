// SPDX-License-Identifier: MIT
// A deep recursion.
import java.nio.ByteBuffer;

public class InRecursion {
    static void descend(int depth) {
        if (depth == 0) {
            Turns.keep(ByteBuffer.allocateDirect(Turns.BLOCK_BYTES)); // PLANTED InRecursion.descend
            return;
        }
        descend(depth - 1);
    }

    static void step() {
        for (int at = 0; at < Turns.BLOCKS; at++) {
            descend(200);
        }
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InRecursion::step);
    }
}
