// SPDX-License-Identifier: MIT
// A method that is called by reflection, through native code of the machine.
import java.lang.reflect.Method;
import java.nio.ByteBuffer;

public class InReflection {
    public static void leakReflected() {
        Turns.keep(ByteBuffer.allocateDirect(Turns.BLOCK_BYTES)); // PLANTED InReflection.leakReflected
    }

    static void step() throws Exception {
        Method method = InReflection.class.getMethod("leakReflected");
        for (int at = 0; at < Turns.BLOCKS; at++) {
            method.invoke(null);
        }
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InReflection::step);
    }
}
