// SPDX-License-Identifier: MIT
// A static method.
import java.nio.ByteBuffer;

public class InStatic {
    static void leakHere() {
        ByteBuffer block =
            ByteBuffer.allocateDirect(Turns.BLOCK_BYTES); // PLANTED InStatic.leakHere
        Turns.keep(block);
    }

    static void step() {
        for (int at = 0; at < Turns.BLOCKS; at++) {
            leakHere();
        }
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InStatic::step);
    }
}
