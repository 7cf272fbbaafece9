import { nearest } from '../../flow/nearest.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { bashScript } from '../completion/bash.ts';
import { fishScript } from '../completion/fish.ts';
import { completables } from '../completion/words.ts';
import { zshScript } from '../completion/zsh.ts';

const SHELLS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;
type Shell = keyof typeof SHELLS;

export default command({
  usage: 'completion <bash|zsh|fish>',
  about:
    'Prints a script that lets your shell complete the commands and options of parley. Its first lines say how to load it.',
  options: {},
  words: [1, 1],
  examples: ['eval "$(parley completion bash)"', 'parley completion fish > ~/.config/fish/completions/parley.fish'],
  async run(context, _values, [text = '']) {
    const names = Object.keys(SHELLS) as Shell[];
    const shell = names.find((name) => name === text);
    if (!shell) {
      const [near] = nearest(text, names);
      throw new Refusal(
        'invalid_request',
        `no completion for that shell; ${near ? `did you mean ${near}?` : `use ${names.join(', ')}`}`,
      );
    }
    const script = SHELLS[shell](await completables());
    if (context.json) return context.sayJson({ shell, script });
    context.say(script.trimEnd());
  },
});
