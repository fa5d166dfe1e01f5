// Compresses a file through a SpecCompact service, decompresses the archive, and compares.
//
//   node roundtrip.js speccompact.proto HOST:PORT FILE
//
// leaves the archive in FILE.spc. Of the project it needs the proto file alone. SPECCOMPACT_TOKEN may hold a bearer token.

import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import process from "node:process";
import { pipeline } from "node:stream/promises";
import { setTimeout as wait } from "node:timers/promises";

import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const DEADLINE_MS = 600_000;
const PIECE_BYTES = 60 << 10; // below the smallest message limit that a service can have
const TRIES = 4;

function connect(proto, address) {
  const options = { keepCase: true, longs: Number, enums: String, oneofs: true, defaults: true };
  const { speccompact } = grpc.loadPackageDefinition(protoLoader.loadSync(proto, options));
  return new speccompact.v1.CompressionService(address, grpc.credentials.createInsecure());
}

function metadata() {
  const headers = new grpc.Metadata();
  if (process.env.SPECCOMPACT_TOKEN) headers.set("authorization", `Bearer ${process.env.SPECCOMPACT_TOKEN}`);
  return headers;
}

// Runs one call from a file to a file, which appears when the answer is complete: without a summary it is cut short. The
// pipeline reads the file no faster than the service takes it, and the answer no faster than it is written.
async function attempt(open, start, source, target) {
  const partial = `${target}.partial`;
  const call = open(metadata(), { deadline: Date.now() + DEADLINE_MS });
  let summary = null;
  let received = 0;

  async function* requests() {
    yield { start };
    for await (const data of createReadStream(source, { highWaterMark: PIECE_BYTES })) yield { data };
  }

  async function* output(answers) {
    for await (const answer of answers) {
      if (summary !== null) throw new Error("the service has sent something behind its summary");
      if (answer.payload === "summary") {
        summary = answer.summary;
      } else {
        received += answer.data.length;
        yield answer.data;
      }
    }
  }

  try {
    await pipeline(requests, call, output, createWriteStream(partial));
    if (summary === null) throw new Error(`the answer was cut short after ${received} bytes`);
    await rename(partial, target);
    return summary;
  } catch (error) {
    call.cancel();
    await rm(partial, { force: true });
    throw Object.assign(error, { received });
  }
}

// Tries again where that is safe and can help: the service is not there, and nothing has come back yet.
async function exchange(open, start, source, target) {
  for (let tried = 1; ; tried += 1) {
    try {
      return await attempt(open, start, source, target);
    } catch (error) {
      if (error.code !== grpc.status.UNAVAILABLE || error.received > 0 || tried === TRIES) throw error;
      await wait(200 * 2 ** tried * (0.5 + Math.random() / 2));
    }
  }
}

async function digest(path) {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}

async function main([proto, address, file]) {
  const client = connect(proto, address);
  const archive = `${file}.spc`;
  const restored = `${file}.restored`;
  try {
    const packed = await exchange(client.compress.bind(client), { options: { level: 5 } }, file, archive);
    console.log(`${packed.content_bytes} bytes became ${packed.compressed_bytes}`);
    await exchange(client.decompress.bind(client), {}, archive, restored);
    if ((await digest(file)) !== (await digest(restored))) throw new Error("other bytes came back");
    console.log("the same bytes came back");
  } finally {
    await rm(restored, { force: true });
    client.close();
  }
}

if (process.argv.length !== 5) {
  console.error("usage: node roundtrip.js speccompact.proto HOST:PORT FILE");
  process.exitCode = 2;
} else {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    console.error(`${error.code === undefined ? "" : `${grpc.status[error.code] ?? error.code}: `}${error.details ?? error.message}`);
    process.exitCode = 1;
  }
}
