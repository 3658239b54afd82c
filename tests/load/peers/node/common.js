// What all peers here share.
export const concurrency = 50;
export const queue = "work";
