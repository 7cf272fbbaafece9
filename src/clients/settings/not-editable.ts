/** A settings file that we cannot change without risk. It is left as it is, and the message says why. */
export class NotEditable extends Error {}
