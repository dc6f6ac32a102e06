// Reads whole arrays with zarrita. Each line of standard input names an array's folder and a file; the array's elements go
// there, little-endian and in C order, and a line of standard output tells the shape, or what went wrong.
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import FileSystemStore from "@zarrita/storage/fs";
import * as zarr from "zarrita";

async function read({ folder, file }) {
  const array = await zarr.open.v3(new FileSystemStore(folder), { kind: "array" });
  const { data, shape, stride } = await zarr.get(array);
  // It comes in the order of the chunks' transpose, if they have one.
  const from = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const count = shape.reduce((n, size) => n * size, 1);
  const size = from.length / count;
  const bytes = new Uint8Array(from.length);
  for (let i = 0; i < count; i++) {
    let [at, rest] = [0, i];
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      at += (rest % shape[axis]) * stride[axis];
      rest = Math.floor(rest / shape[axis]);
    }
    bytes.set(from.subarray(at * size, (at + 1) * size), i * size);
  }
  writeFileSync(file, bytes);
  return { shape };
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = await read(JSON.parse(line));
  } catch (error) {
    answer = { error: String(error.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
