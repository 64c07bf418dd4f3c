// SPDX-License-Identifier: MIT
// All planted programs in one process, in turns.
public class Every {
    static void step() throws Exception {
        InConstructor.step();
        InDeflater.step();
        InHot.step();
        InInner.step();
        InLambda.step();
        InLoader.step();
        InMethod.step();
        InRecursion.step();
        InReflection.step();
        InStatic.step();
        InStream.step();
        InThread.step();
        InVirtual.step();
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, Every::step);
    }
}
