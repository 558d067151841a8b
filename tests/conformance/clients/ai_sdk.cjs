// Vercel's AI SDK with its provider for OpenAI-compatible servers.
const assert = require("node:assert");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { APICallError, Output, embedMany, generateText, jsonSchema, streamText, tool } =
  require("ai");

const [chat, vectors] = process.argv.slice(2);
const question = "What is the capital of France?";
const city = {
  type: "object",
  properties: {
    name: { type: "string", enum: ["Paris", "Oslo"] },
    rank: { type: "integer", minimum: 1, maximum: 9 },
  },
  required: ["name", "rank"],
  additionalProperties: false,
};
const provider = (baseURL) =>
  createOpenAICompatible({
    name: "local", baseURL, apiKey: "none", includeUsage: true,
    supportsStructuredOutputs: true,
  });
const model = provider(chat)("any");
const short = { model, prompt: question, temperature: 0, maxOutputTokens: 12 };

function checkCity(found) {
  assert.deepStrictEqual(Object.keys(found).sort(), ["name", "rank"]);
  assert(["Paris", "Oslo"].includes(found.name));
  assert(found.rank >= 1 && found.rank <= 9);
}

async function main() {
  const whole = await generateText(short);
  assert(whole.text);
  assert.strictEqual(whole.usage.outputTokens, 12);
  console.log("chat");

  let streamed = "";
  for await (const piece of streamText(short).textStream) streamed += piece;
  assert.strictEqual(streamed, whole.text);
  console.log("streams");

  const called = await generateText({
    model, prompt: question, maxOutputTokens: 80, toolChoice: "required",
    tools: {
      report_city: tool({ description: "Report.", inputSchema: jsonSchema(city) }),
    },
  });
  checkCity(called.toolCalls[0].input);
  console.log("tools");

  const held = await generateText({
    model, prompt: question, maxOutputTokens: 80,
    output: Output.object({ schema: jsonSchema(city) }),
  });
  checkCity(held.output);
  console.log("schemas");

  await assert.rejects(
    generateText({ model, prompt: "word ".repeat(9000), maxRetries: 0 }),
    (error) => {
      assert(APICallError.isInstance(error));
      assert(error.message.includes("maximum context length is 2048 tokens"));
      return true;
    },
  );
  console.log("overflow");

  const values = Array.from({ length: 1000 }, (_, n) => (n === 500 ? "" : `number ${n}`));
  const made = await embedMany({
    model: provider(vectors).embeddingModel("any"), values,
  });
  assert.strictEqual(made.embeddings.length, 1000);
  assert(made.embeddings.every((vector) => vector.length === 384));
  console.log("embeddings");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
