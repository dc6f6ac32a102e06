// Makes a container: node -e THIS PORT ACCOUNT KEY NAME. Only signed requests may do that.
const crypto = require("crypto");
const http = require("http");
const [port, account, key, name] = process.argv.slice(1);
const path = `/${account}/${name}`;
const headers = { "x-ms-date": new Date().toUTCString(), "x-ms-version": "2021-12-02" };
const signed = Object.entries(headers).map(([header, value]) => `${header}:${value}`).join("\n");
const text = `PUT${"\n".repeat(12)}${signed}\n/${account}${path}\nrestype:container`;
const signature = crypto.createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
headers.authorization = `SharedKey ${account}:${signature}`;
headers["content-length"] = 0;
const options = { host: "127.0.0.1", port, method: "PUT", path: `${path}?restype=container`, headers };
const request = http.request(options, (answer) => {
  answer.on("data", (data) => process.stderr.write(data));
  // 409: it is there already.
  answer.on("end", () => process.exit([201, 409].includes(answer.statusCode) ? 0 : 1));
});
request.on("error", (error) => {
  console.error(error.message);
  process.exit(1);
});
request.end();
