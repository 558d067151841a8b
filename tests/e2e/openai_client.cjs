// Talks to a server with the npm package "openai" and prints what it saw as JSON.
const { OpenAI } = require("openai");

const [, , baseURL] = process.argv;
const client = new OpenAI({ baseURL, apiKey: "any", maxRetries: 0, timeout: 40_000 });
const messages = [{ role: "user", content: "Name three rivers." }];
const asked = { model: "any", messages, max_tokens: 12, temperature: 0 };

async function failure(call) {
  try {
    await call();
  } catch (error) {
    return [error.constructor.name, error.status, error.param ?? null, error.code ?? null];
  }
  return null;
}

async function main() {
  const seen = {};
  seen.models = (await client.models.list()).data.map((model) => model.id);
  const whole = await client.chat.completions.create(asked);
  seen.whole = whole.choices[0].message.content;
  seen.reason = whole.choices[0].finish_reason;

  const parts = [];
  let usage = null;
  const options = { stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await client.chat.completions.create({ ...asked, ...options })) {
    if (chunk.choices.length) parts.push(chunk.choices[0].delta.content ?? "");
    usage = chunk.usage ?? usage;
  }
  seen.streamed = parts.join("");
  seen.nParts = parts.length;
  seen.usage = usage;

  const helper = client.chat.completions.stream({ ...asked, n: 1 });
  seen.helped = (await helper.finalChatCompletion()).choices[0].message.content;

  const scored = await client.completions.create({
    model: "any", prompt: "The sky is blue", echo: true, logprobs: 1, max_tokens: 0,
  });
  seen.scored = scored.choices[0].logprobs.tokens;

  const left = await client.completions.create({
    model: "any", prompt: "Once upon a time", max_tokens: 2000, stream: true,
  });
  for await (const part of left) {
    seen.first = part.object;
    break; // leaves: the client closes its connection
  }

  seen.failures = [
    await failure(() => client.chat.completions.create({ ...asked, temperature: 101 })),
    await failure(() => client.completions.create({ model: "any", prompt: "word ".repeat(3000) })),
    await failure(() => client.models.retrieve("gpt-4")),
    await failure(() => client.chat.completions.create({ ...asked, temprature: 1 })),
  ];
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
