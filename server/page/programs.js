// How programs get an ID from this server. Each text warns of rounding where one copies it; a test runs them.

/** Texts for curl, Node and Python. A token is in the environment variable TOKEN. */
export function programs(url, needsToken) {
  const token = (text) => (needsToken ? text : "");
  return {
    curl: `curl -H "Accept: application/json"${token(' -H "Authorization: Bearer $TOKEN"')} ${url}
# {"id":"..."}: jq would round a number`,
    node: `const answer = await fetch("${url}", {
  headers: { Accept: "application/json"${token(', Authorization: "Bearer " + process.env.TOKEN')} },
});
const { id } = await answer.json(); // a string: Number(id) would round it`,
    python: `import json, ${token("os, ")}urllib.request
request = urllib.request.Request("${url}", headers={
    "Accept": "application/json",${token('\n    "Authorization": "Bearer " + os.environ["TOKEN"],')}
})
id = int(json.load(urllib.request.urlopen(request))["id"])`,
  };
}
