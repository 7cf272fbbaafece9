import { badRequest } from './phrases.ts';

/** The fields of a request's JSON. What is null counts as absent, as the original's clients mean it. */
export class Fields {
  constructor(readonly values: Record<string, unknown>) {}

  /** A text that must be there. */
  text(name: string): string {
    const value = this.values[name];
    if (typeof value === 'string') return value;
    throw badRequest(`"${name}" must be a string`);
  }

  optionalText(name: string): string | undefined {
    return this.#absent(name) ? undefined : this.text(name);
  }

  texts(name: string, most = Infinity): string[] | undefined {
    if (this.#absent(name)) return undefined;
    const value = this.values[name];
    if (!Array.isArray(value) || !value.every((one) => typeof one === 'string')) {
      throw badRequest(`"${name}" must be an array of strings`);
    }
    if (value.length > most) throw badRequest(`"${name}" has more than ${most} entries`);
    return value;
  }

  optionalFlag(name: string): boolean {
    const value = this.values[name] ?? false;
    if (typeof value === 'boolean') return value;
    throw badRequest(`"${name}" must be true or false`);
  }

  /** A whole number between these two. */
  optionalNumber(name: string, least: number, most: number): number | undefined {
    if (this.#absent(name)) return undefined;
    const value = this.values[name];
    if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value;
    throw badRequest(`"${name}" must be a whole number from ${least} to ${most}`);
  }

  #absent(name: string): boolean {
    return this.values[name] === undefined || this.values[name] === null;
  }
}
