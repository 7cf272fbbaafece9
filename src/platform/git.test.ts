import { describe, expect, it } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { gitOrigin } from './git.ts';

const CONFIG = `[core]
\tbare = false
[remote "upstream"]
\turl = https://example.org/their/proj.git
[remote "origin"]
\tfetch = +refs/heads/*:refs/remotes/origin/*
\turl = git@github.com:me/proj.git
[branch "main"]
\tremote = origin
`;

function aRepository(config = CONFIG): string {
  const folder = temporaryHome();
  mkdirSync(`${folder}/.git`);
  writeFileSync(`${folder}/.git/config`, config);
  return folder;
}

describe('the origin of a folder', () => {
  it('is the URL in the settings of its repository', () => {
    expect(gitOrigin(aRepository())).toBe('git@github.com:me/proj.git');
  });

  it('is the same in all folders below', () => {
    const folder = aRepository();
    mkdirSync(`${folder}/src/deep`, { recursive: true });
    expect(gitOrigin(`${folder}/src/deep`)).toBe('git@github.com:me/proj.git');
  });

  it('is the same in a worktree', () => {
    const folder = aRepository();
    const tree = temporaryHome();
    mkdirSync(`${folder}/.git/worktrees/tree`, { recursive: true });
    writeFileSync(`${folder}/.git/worktrees/tree/commondir`, '../..\n');
    writeFileSync(`${tree}/.git`, `gitdir: ${folder}/.git/worktrees/tree\n`);
    expect(gitOrigin(tree)).toBe('git@github.com:me/proj.git');
  });

  it('is the submodule’s own URL in a submodule', () => {
    const folder = aRepository();
    mkdirSync(`${folder}/.git/modules/lib`, { recursive: true });
    writeFileSync(`${folder}/.git/modules/lib/config`, CONFIG.replace('me/proj', 'me/lib'));
    mkdirSync(`${folder}/lib`);
    writeFileSync(`${folder}/lib/.git`, 'gitdir: ../.git/modules/lib\n');
    expect(gitOrigin(`${folder}/lib`)).toBe('git@github.com:me/lib.git');
  });

  it('is unknown without a repository or a remote of that name', () => {
    expect(gitOrigin(temporaryHome())).toBeUndefined();
    expect(gitOrigin(aRepository('[core]\n\tbare = false\n'))).toBeUndefined();
  });
});
