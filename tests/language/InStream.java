// SPDX-License-Identifier: MIT
// A function that streams of the standard library call.
import java.nio.ByteBuffer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class InStream {
    static Object leakInStream(int at) {
        return ByteBuffer.allocateDirect(Turns.BLOCK_BYTES); // PLANTED InStream.leakInStream
    }

    static void step() {
        Turns.keep(IntStream.range(0, Turns.BLOCKS).boxed().map(InStream::leakInStream)
            .collect(Collectors.toList()));
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InStream::step);
    }
}
