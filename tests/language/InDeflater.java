// SPDX-License-Identifier: MIT
// Memory of a native library, of 268 KB at a time, which is never ended.
import java.util.zip.Deflater;

public class InDeflater {
    static void compress() {
        Deflater deflater = new Deflater(); // PLANTED InDeflater.compress
        deflater.setInput(new byte[100]);
        deflater.finish();
        deflater.deflate(new byte[1000]);
        Turns.keep(deflater);
    }

    static void step() {
        for (int at = 0; at < 64; at++) {
            compress();
        }
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InDeflater::step);
    }
}
