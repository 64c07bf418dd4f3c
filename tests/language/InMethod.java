// SPDX-License-Identifier: MIT
// A method of a nested class, which has a long comment before it, so that lines are far apart in
// the table of the method's lines.
import java.nio.ByteBuffer;

public class InMethod {
    static class Cache {
        private final int size = Turns.BLOCK_BYTES;

        void add(boolean isFilled) {
            if (!isFilled) {
                Turns.keep("nothing");
            }





            Turns.keep(
                ByteBuffer.allocateDirect(size)); // PLANTED InMethod$Cache.add
        }
    }

    static void step() {
        Cache cache = new Cache();
        for (int at = 0; at < Turns.BLOCKS; at++) {
            cache.add(at % 2 == 0);
        }
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InMethod::step);
    }
}
