// SPDX-License-Identifier: MIT
// A class without a name, which a program of the standard library calls.
import java.nio.ByteBuffer;
import java.util.AbstractList;
import java.util.ArrayList;

public class InInner {
    static void step() {
        Turns.keep(new ArrayList<>(new AbstractList<Object>() {
            @Override
            public Object get(int index) {
                return ByteBuffer.allocateDirect(Turns.BLOCK_BYTES); // PLANTED InInner$1.get
            }

            @Override
            public int size() {
                return Turns.BLOCKS;
            }
        }));
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InInner::step);
    }
}
