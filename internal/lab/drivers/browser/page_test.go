package browser

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/opaque"
	"github.com/seed-5394e6b1/snowflake/server/page"
)

// example is an ID of the default layout: worker 7, sequence 42.
const example = snowflake.ID(117469438034341930)

// ambiguous has a text in base 62 that is another ID in base 58.
const ambiguous = snowflake.ID(1750000028684845056)

func TestIDExplainsItself(t *testing.T) {
	p := open(t, serve(t, nil), "")
	p.hidden("#result")
	p.set("#text", example.String())
	p.shows("#one-title", "117469438034341930 as default")
	p.shows("#utc", "2026-11-21T03:41:36.504Z")
	assert.Equal(t, "2026-11-21 04:41:36.504 +01:00, your time (Europe/Berlin)", p.text("#local"))
	assert.Equal(t, "8 hours ago", p.text("#ago"))
	fields := p.text("#fields")
	assert.Contains(t, fields, "bits 62–22")
	assert.Contains(t, fields, "worker bits 21–12 7 of 0 to 1,023")
	assert.Contains(t, fields, "sequence bits 11–0 42 of 0 to 4,095")
	forms := p.text("#forms")
	for _, text := range []string{example.String(), example.Base32(), example.Base58(), example.Base62()} {
		assert.Contains(t, forms, text)
	}
	var bits string
	p.eval(`[...document.querySelectorAll("#bits span")].map((s) => s.textContent).join("")`, &bits)
	assert.Equal(t, fmt.Sprintf("%064b", int64(example)), bits)
	assert.Contains(t, p.text("#rounded"), "this one to 117469438034341936")
	assert.Regexp(t, `^(likely|possible) `, p.text("#fits"))
	p.hidden("#fits meter")
	assert.NotContains(t, p.text("#chips")+p.text("#fits"), "%", "a percentage of a single ID would look measured")
	p.hidden("#fit-error")
	for form, text := range map[string]string{"base 32": example.Base32(), "base 58": example.Base58(), "base 62": example.Base62()} {
		p.set("#text", " \""+text+"\",\n")
		p.shows("#reading-list", form)
		p.shows("#one-title", example.String())
	}
}

// The server reads what is in none of the page's forms, such as an ID of Bluesky.
func TestServerReadsOtherForms(t *testing.T) {
	p := open(t, serve(t, nil), "")
	p.set("#text", "3jzfcijpj2z2a\n\n3jzfcijpj2z2b")
	p.shows("#reading-list", "base 32, sortable")
	p.shows("#summary", "IDs 2, all distinct")
	p.shows("#rows", "3 ")
	p.set("#text", "https://www.instagram.com/p/BsOGulcndj-/")
	p.shows("#one-title", "as instagram")
	p.shows("#fits", "the URL is of www.instagram.com")
	p.set("#text", "https://x.com/a/status/1541815603606036480?s=20") // the host decides
	p.shows("#one-title", "1541815603606036480 as twitter")
	p.shows("#fits", "the URL is of x.com")
}

func TestTextsOfTheLibraryAreRead(t *testing.T) {
	p := open(t, serve(t, nil), "")
	typed := "order_" + example.Base32()
	for text, form := range map[string]string{
		typed: "typed", typed + "\nline_item_" + (example + 1).Base32(): "typed",
		fmt.Sprintf("0x%x", int64(example)): "hexadecimal", fmt.Sprintf("%016X", int64(example)): "hexadecimal",
	} {
		p.set("#text", text)
		p.shows("#reading-list", form)
		p.shows("#one-title", example.String()+" as default")
	}
	codec, err := opaque.New(bytes.Repeat([]byte{7}, 32), "order")
	require.NoError(t, err)
	prefixed, err := codec.WithPrefix("order")
	require.NoError(t, err)
	for _, text := range []string{codec.Encode(example), codec.EncodeBase32(example), prefixed.Encode(example), prefixed.EncodeBase32(example)} {
		p.set("#text", text)
		p.shows("#error", fmt.Sprintf("%q may be an opaque text, which only a program with its key reads", text[:min(len(text), 32)]))
		p.hidden("#result")
	}
	p.set("#text", example.String()+"\n"+codec.Encode(example))
	p.shows("#errors", `line 2: not an ID: "`+codec.Encode(example)+`" may be an opaque text`)
}

// What the server says of all IDs together stands above them, and which words it skipped beside
// their lines.
func TestNotesAndSkippedWordsAreShown(t *testing.T) {
	p := open(t, serve(t, nil), "")
	mux := http.NewServeMux()
	mux.HandleFunc("POST /identify", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer := `{"guesses":[{"name":"twitter","share":0.6,"form":"decimal"}],"notes":["this is probably a mixture"],"readings":[]}`
		if bytes.HasPrefix(body, []byte("3jz")) { // words, in a form that the page does not know
			answer = `{"guesses":[],"readings":[{"form":"base 32, sortable","ids":["5","7"],"skipped":[{"at":1,"text":"!","why":"invalid ID: \"!\" is no ID"}]}]}`
		}
		_, _ = io.WriteString(w, answer)
	})
	served.Store(mux)
	p.set("#text", example.String()+"\n1541815603606036480\n1071234567890123456")
	p.shows("#notes", "This is probably a mixture.")
	p.set("#text", "3jzfcijpj2z2a\n!\n\n3jzfcijpj2z2b")
	p.shows("#rows", "1 5 ")
	p.shows("#rows", "4 7 ")
	p.shows("#errors", `line 2: not an ID: "!" is no ID`)
}

// The page speaks of lines, and not of the fields of a request.
func TestRefusalNamesTheLine(t *testing.T) {
	p := open(t, serve(t, nil), "")
	p.expected = "Failed to load resource"
	p.set("#text", "\nthis-is-not-one\nnor-this!")
	p.shows("#error", `line 2: not an ID: `)
	assert.NotContains(t, p.text("#error"), "snowflake:")
	assert.NotContains(t, p.text("#error"), "body")
	p.set("#text", "9b2f7c1e-54a2-4f0e-9c0e-3f1f0e7a1b2c")
	p.shows("#error", `line 1: not an ID: "9b2f7c1e-54a2-4f0e-9c0e-3f1f0e7a1b2c" is a UUID, version 4, which has more than 64 bits`)
}

func TestServerThatIsDownIsSaidToBe(t *testing.T) {
	p := open(t, serve(t, nil), "")
	p.expected = "Failed to load resource"
	p.shows("#with-curl", "curl")
	cut := func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) } // the connection breaks
	mux := http.NewServeMux()
	mux.HandleFunc("/", cut)
	served.Store(mux)
	const down = "the server does not answer: it is down, or the network is"
	p.click("#issue")
	p.shows("#live-error", "No IDs: "+down)
	p.set("#text", example.String())
	p.shows("#fit-error", "Which layouts fit is not known, because "+down)
	p.shows("#one-title", example.String())
	p.set("#text", "3jzfcijpj2z2a")
	p.shows("#error", "the text has 13 characters: an ID has")
	p.shows("#error", "The server knows more forms, but "+down)
}

// With tokens the page asks for no IDs, which it would not get, and shows where a program puts its
// token.
func TestPageOfAServerWithTokensIssuesNothing(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/", page.Handler(snowflake.DefaultLayout(), &page.Options{NeedsToken: true})) // any other request would be an error of the page
	served.Store(mux)
	p := open(t, origin(), "")
	p.shows("#live-status", "This server asks for a token, and this page has none")
	p.waitFor(`document.querySelector("#issue").disabled && document.querySelector("#keep").disabled`)
	for _, name := range []string{"curl", "node", "python"} {
		p.shows("#with-"+name, "Authorization")
	}
	p.set("#text", example.String()) // and what it reads itself, it explains
	p.shows("#one-title", example.String()+" as default (this server)")
	p.shows("#fit-error", "Which layouts fit is not known, because this server asks for a token, and this page has none")
}

func TestAmbiguousTextShowsItsReadings(t *testing.T) {
	p := open(t, serve(t, nil), "")
	text := ambiguous.Base62()
	asBase58, err := snowflake.ParseBase58(text)
	require.NoError(t, err)
	p.set("#text", text)
	p.shows("#one-title", ambiguous.String())
	assert.Equal(t, "base 62 base 58", p.text("#reading-list"))
	p.click(`#reading-list input[value="base 58"]`)
	p.shows("#one-title", asBase58.String())
	assert.Contains(t, p.hash(), "as=base+58")
	p.click(`#reading-list input[value="base 62"]`)
	p.shows("#one-title", ambiguous.String())
	assert.NotContains(t, p.hash(), "as=")

	p.set("#text", "22345678912") // digits only: decimal, though base 58 and 62 have them too
	p.shows("#one-title", "22345678912 as")
	assert.Regexp(t, "^decimal base (62 base 58|58 base 62)$", p.text("#reading-list"))
}

func TestRefusedTextIsExplained(t *testing.T) {
	p := open(t, serve(t, nil), "")
	p.expected = "Failed to load resource" // the server refuses the text
	p.set("#text", "9223372036854775808")
	p.shows("#error", `decimal "9223372036854775808": it is over 9223372036854775807`)
	p.hidden("#result")
	p.waitFor(`document.querySelector("#text").getAttribute("aria-invalid") === "true"`)
	p.set("#text", "018f6b1e-5c3b-7c8e-9d2a-0123456789ab")
	p.shows("#error", "a UUID, version 7")
	p.set("#text", example.String())
	p.shows("#one-title", example.String())
	p.hidden("#error")
	p.waitFor(`document.querySelector("#text").getAttribute("aria-invalid") === "false"`)
}

func TestLayoutsAreChosen(t *testing.T) {
	p := open(t, serve(t, nil), "id=1541815603606036480")
	p.shows("#one-title", "as ")
	var others []string // stand under the title, and one click switches
	p.eval(`[...document.querySelectorAll('#chips [aria-pressed="false"]')].map((b) => b.value)`, &others)
	require.Greater(t, len(others), 1)
	p.click(fmt.Sprintf(`#chips [value=%q]`, others[0]))
	p.shows("#one-title", "as "+others[0])
	p.shows(`#chips [aria-pressed="true"]`, others[0])
	p.hidden("#reading-list input") // a text with one reading offers no choice of it
	p.waitFor(`document.querySelector("#fields .worker").title !== ""`)
	p.set("#layout", "twitter")
	p.shows("#one-title", "as twitter")
	p.shows("#utc", "2022-06-28T16:07:40.105Z")
	p.shows("#fields", "datacenter bits 21–17 11")
	assert.Contains(t, p.hash(), "layout=twitter")
	p.set("#layout", "jssafe")
	p.shows("#warning", "Not an ID of jssafe: 1541815603606036480 has 61 bits, the layout 52")
	p.set("#layout", "default")
	p.shows("#warning", "Its time lies in the future")
	p.click(`#chips button[value="discord"]`)
	p.shows("#one-title", "as discord")
	p.hidden("#warning")
	p.click("#ruled-out summary")
	p.shows("#nots", "It has more bits jssafe")

	p.set("#layout", "designed")
	p.shows("#one-title", "as the designed layout")
	p.set("#workerBits", "99")
	p.shows("#warning", "The designed layout is invalid: 152 bits in all, an ID has 63")
	p.hidden("#one")
	p.set("#workerBits", "10")
	p.shows("#one-title", "as the designed layout")
}

// The page of a server reads the server's IDs with the server's layout, and others with theirs.
func TestServersOwnLayoutComesFirst(t *testing.T) {
	layout := snowflake.Layout{Epoch: snowflake.DefaultLayout().Epoch, Unit: time.Millisecond, TimeBits: 41, WorkerBits: 1, SequenceBits: 21}
	id, err := layout.Encode(snowflake.Parts{Time: noon.Add(-time.Hour), Worker: 1, Sequence: 3})
	require.NoError(t, err)
	p := open(t, serveLayout(t, layout, nil), "id="+id.String())
	p.shows("#one-title", id.String()+" as this server")
	p.shows("#fields", "worker bit 21 1 of 0 to 1")
	assert.Contains(t, p.text("#layout option:nth-child(2)"), "this server")
	assert.Contains(t, p.text("#likely"), "It fits this server, 2026")
	assert.Equal(t, "this server", p.text("#chips button:first-child"), "without the likelihood that it would have anywhere else")
	p.set("#text", "1541815603606036480") // a tweet, whose time would lie in the future
	p.waitFor(`!document.querySelector("#one-title").innerText.includes("this server")`)
	p.set("#layout", "this server")
	p.shows("#warning", "Its time lies in the future")
	p.set("#start", "this server")
	p.shows("#spelling", "--layout 41/1/21")
}

func TestManyIDs(t *testing.T) {
	p := open(t, serve(t, nil), "")
	var lines []string
	for i := range 120 {
		lines = append(lines, (example + snowflake.ID(i/2)).String())
	}
	p.set("#text", strings.Join(lines, "\n")+"\n12x\nno!\n")
	p.shows("#summary", "IDs 120, of which 60 are distinct")
	p.waitFor(`document.querySelector("#fits meter") !== null`)
	assert.Regexp(t, `^(likely|>?\d+%) `, p.text("#fits"))
	p.shows("#errors", `line 121: not an ID: decimal "12x": it has a character that is not a digit`)
	p.shows("#more", "Show 70 more of 70")
	p.click("#more")
	p.hidden("#more")
	p.click(`#rows button[data-row="119"]`)
	p.shows("#one-title", (example + 59).String())
	assert.Contains(t, p.hash(), "n=120")
	p.shows(`#rows [aria-current="true"]`, "120 "+(example+59).String())
}

func TestLinesOfALog(t *testing.T) {
	p := open(t, serve(t, nil), "")
	p.click(`[data-example="log"]`)
	p.shows("#summary", "IDs 4, of which 3 are distinct")
	p.shows("#reading-list", "IDs in a log")
	p.shows("#one-title", example.String())
	for _, name := range []string{"id", "tweet", "text"} {
		p.click(fmt.Sprintf(`[data-example=%q]`, name))
		p.hidden("#many")
		p.shows("#one-title", map[bool]string{true: " as twitter", false: " as default"}[name == "tweet"])
	}
	p.click("#clear")
	p.hidden("#result")
	assert.Empty(t, p.hash())
}

func TestThousandsOfLines(t *testing.T) {
	p := open(t, serve(t, nil), "")
	gen, err := snowflake.New(3, &snowflake.Options{Clock: snowflake.ClockFunc(func() time.Time { return noon })})
	require.NoError(t, err)
	var text strings.Builder
	for range 1000 { // of one tick, and then again
		id, err := gen.NextID()
		require.NoError(t, err)
		fmt.Fprintf(&text, "2026-11-21T12:00:00Z level=INFO msg=\"order placed\" id=%v took=3ms\n", id)
	}
	log := text.String() + text.String()
	p.set("#text", log)
	p.shows("#summary", "IDs 2,000, of which 1,000 are distinct")
	p.shows("#more", "Show 500 more of 1,950")
	var elements, hash int
	p.eval(`document.querySelectorAll("*").length`, &elements)
	p.eval(`location.hash.length`, &hash)
	assert.Less(t, elements, 1200, "not every line becomes elements")
	assert.Less(t, hash, 100, "the link holds the selected ID only")
	p.click("#more")
	p.shows("#more", "Show 500 more of 1,450")

	// A paste replaces the paste before, even if the page still works on the earlier one.
	p.set("#text", log+log)
	p.set("#text", example.String())
	p.shows("#one-title", example.String())
	p.hidden("#many")
}

// While a long text is read, the result of the text before is not shown as if it were the text's.
func TestResultOfAnEarlierTextIsDimmed(t *testing.T) {
	p := open(t, serve(t, nil), "id="+example.String())
	p.shows("#one-title", example.String())
	p.waitFor(`document.querySelector("#result").getAttribute("aria-busy") === "false"`)
	lines := depth.Of(2000, 20_000)
	p.eval(`window.seen = []; new MutationObserver(() => {
		const busy = document.querySelector("#result").getAttribute("aria-busy");
		window.seen.push([busy, getComputedStyle(document.querySelector("#result")).opacity, document.querySelector("#busy").hidden, document.querySelector("#summary").innerText].join());
	}).observe(document.querySelector("#result"), { attributes: true }); 0`, nil)
	p.set("#text", strings.Repeat((example+1).String()+"\n", lines))
	p.waitFor(`window.seen.at(-1)?.startsWith("false,1,true,IDs")`)
	var first string
	p.eval(`window.seen[0]`, &first)
	assert.Equal(t, "true,0.45,false,", first)
}

// A visitor reads what an ID is, sees the ID of this moment, and finds the API, the metrics, the
// documentation and how a program gets an ID from this server.
func TestVisitorFindsTheWay(t *testing.T) {
	p := open(t, serve(t, nil), "")
	p.shows("#explain", "says when it was made, and by which worker. Worker 7 would make this one now")
	id, err := snowflake.DefaultLayout().Encode(snowflake.Parts{Time: noon, Worker: 7})
	require.NoError(t, err)
	p.shows("#sample", id.String())
	p.click("#sample")
	p.shows("#one-title", id.String()+" as default (this server)")
	p.shows("#human", "Saturday")
	p.shows("#likely", "default (this server), 2026")
	p.shows("footer", "API Metrics Documentation")
	for _, name := range []string{"curl", "node", "python"} {
		p.shows("#with-"+name, p.url+"id")
	}
	p.hidden("#designer")
	p.click(`[data-goto="designer"]`)
	p.hidden("#explain")
	p.shows("#facts", "workers 1,024")
	assert.Contains(t, p.hash(), "view=designer")
}

func TestHostileTextIsInert(t *testing.T) {
	long := depth.Of(5_000, 200_000)
	hostile := []string{
		`<img src=x onerror="window.pwned=1">`,
		`<script>window.pwned=1</script>117469438034341930<b>117469438034341930</b>`,
		"\u202e117469438034341930\u202d \u2067abc",
		strings.Repeat("W", long),
		strings.Repeat("9", long),
		"\x00\x1b[31m\ufffd\ud7ff",
		"__proto__", "constructor", "0x10", "1e18", "NaN", "१२३४५६७८९०१२३४५६",
	}
	p := open(t, serve(t, nil), "")
	p.expected = "Failed to load resource" // the server refuses some of them
	p.size(360, 800)
	fields := []string{"#epoch", "#unit", "#timeBits"}
	for i, text := range hostile {
		p.set("#text", text)
		p.waitFor(`!document.querySelector("#result").hidden || !document.querySelector("#error").hidden`)
		for _, field := range depth.Of(fields[i%3:][:1], fields) {
			p.set(field, text)
			p.shows("#design-error", "invalid layout: ")
			p.inert()
		}
		p.set("#start", "default")
	}
	for _, fragment := range []string{
		"id=<img src=x onerror=window.pwned=1>&layout=<b>&as=<b>&n=<b>", "design=<b>/<b>/<b>/<b>/<b>&epoch=<b>&unit=<b>&last=1", "%", "%zz&id=%ff%fe", "n=-5&id=1", "n=1e99&id=1",
		"n=NaN&id=1", "layout=__proto__&id=1", "as=constructor&id=22345678912", "design=////", "design=1/2&epoch=5", "&&==&id", strings.Repeat("id=", 5000), "design=41/0/0/10/12&epoch=99999999999999999999&unit=ms",
	} {
		p.goTo(fragment)
		p.waitFor(`document.querySelector("#start").options.length > 10 && document.querySelector("#facts") !== null`)
		p.inert()
	}
}

// inert checks that text has become neither elements nor code, and that it fits.
func (p *tab) inert() {
	p.t.Helper()
	var found int
	p.eval(`document.querySelectorAll("img, b, iframe, script:not([src]), style").length + (window.pwned ?? 0)`, &found)
	require.Zero(p.t, found)
	p.noSideways()
}

// noSideways checks that nothing is wider than the window.
func (p *tab) noSideways() {
	p.t.Helper()
	var wide string
	p.eval(`document.documentElement.scrollWidth <= window.innerWidth ? "" : [...document.querySelectorAll("body *")]
		.filter((e) => e.getBoundingClientRect().right > window.innerWidth + 1).map((e) => e.tagName + "#" + e.id).join(" ") || "something"`, &wide)
	require.Empty(p.t, wide, "the page scrolls sideways")
}

func TestIDsAreIssuedLive(t *testing.T) {
	p := open(t, serve(t, nil), "")
	p.click("#issue")
	p.shows("#live-status", "10 IDs issued")
	var id string
	p.eval(`document.querySelector("#issued button").dataset.id`, &id)
	_, err := snowflake.ParseID(id)
	require.NoError(t, err)
	var gap float64
	p.eval(`document.querySelector("#issued").getBoundingClientRect().top - document.querySelector("#issue").getBoundingClientRect().bottom`, &gap)
	assert.Less(t, gap, 120.0, "the IDs appear under the button")
	p.click("#issued button")
	p.shows("#one-title", id)
	p.click("#keep")
	p.waitFor(`parseInt(document.querySelector("#live-status").textContent) >= 70`)
	p.click("#keep")
	var shown int
	p.eval(`document.querySelectorAll("#issued button").length`, &shown)
	assert.Equal(t, 50, shown)
}

func TestServerThatIssuesNoIDsIsExplained(t *testing.T) {
	var answer http.HandlerFunc
	p := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r) }), "")
	p.expected = "Failed to load resource"
	for _, c := range []struct {
		status     int
		body, says string
	}{
		{503, "the lease is away\n", "No IDs: the server answered 503 Service Unavailable: the lease is away"},
		{503, `{"code":"unavailable","message":"the store is away"}`, "No IDs: the server answered 503 Service Unavailable: the store is away"},
		{401, "no token\n", "No IDs: the server asks for a token, and this page has none"},
		{200, "<b>hello</b>", `No IDs: the server answered "<b>hello</b>"`},
		{200, `{"ids":["5","-7"]}`, `decimal "-7"`},
		{200, `{"ids":[5]}`, "a Number may have lost digits"},
		{200, `{}`, "No IDs: "},
	} {
		answer = func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, "application/json", r.Header.Get("Accept"))
			assert.Equal(t, "10", r.URL.Query().Get("n"))
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}
		p.click("#issue")
		p.shows("#live-error", c.says)
		var shown int
		p.eval(`document.querySelectorAll("#issued button, #live b").length`, &shown)
		assert.Zero(t, shown)
	}
}

func TestDesigner(t *testing.T) {
	p := open(t, serve(t, nil), "view=designer")
	p.shows("#facts", "workers 1,024")
	p.shows("#facts", "IDs a second 4,096,000 for one worker, 4,194,304,000 in all")
	p.shows("#facts", "runs out 2095-09-07T15:47:35.552Z, in 68.8 years")
	p.shows("#facts", "within 2^53 no; 63 bits: JavaScript’s Numbers round IDs from 2026-01-25T")
	p.shows("#spelling", "snowflake new --layout default")

	p.set("#start", "sonyflake")
	p.shows("#facts", "workers 65,536")
	p.shows("#design-legend", "time 39 sequence 8 worker 16")
	p.shows("#literal", "WorkerLast: true,")
	p.set("#start", "baidu")
	p.shows("#facts", "which is past: no more IDs can be issued")
	p.set("#start", "jssafe")
	p.shows("#facts", "within 2^53 yes; 52 bits")

	for field, value := range map[string]string{"timeBits": "38", "clockSeqBits": "1", "datacenterBits": "2", "workerBits": "6", "sequenceBits": "9", "unit": "10ms", "epoch": "2020-02-29"} {
		p.set("#"+field, value)
	}
	p.shows("#facts", "workers 64 in each datacenter, 256 in all")
	p.click("#workerLast")
	p.shows("#spelling", "snowflake new --layout 38/1/2/6/9@2020-02-29,10ms,worker-last")
	p.shows("#literal", "Unit: 10 * time.Millisecond,")
	assert.Contains(t, p.hash(), "design=38%2F1%2F2%2F6%2F9&epoch=2020-02-29&unit=10ms&last=1")
	var letters string
	p.eval(`[...document.querySelectorAll("#design-bits span")].map((s) => s.textContent).join("")`, &letters)
	assert.Equal(t, "0"+strings.Repeat("·", 7)+strings.Repeat("t", 38)+"cdd"+strings.Repeat("s", 9)+strings.Repeat("w", 6), letters)
}

func TestDesignerRefusesWithTheLibrarysWords(t *testing.T) {
	p := open(t, serve(t, nil), "view=designer")
	for _, c := range []struct{ field, value, says string }{
		{"timeBits", "60", "invalid layout: 82 bits in all, an ID has 63"},
		{"timeBits", "0", "invalid layout: no time bits"},
		{"timeBits", "-1", `invalid layout: "-1" is not a number of bits: time has 0 to 63`},
		{"unit", "0s", "invalid layout: unit 0s is not positive"},
		{"unit", "-5ms", "invalid layout: unit -5ms is not positive"},
		{"unit", "fast", `invalid layout: "fast" is not a tick such as 10ms`},
		{"unit", "2540400h", "invalid layout: 41 bits of 2540400h0m0s last longer than 36 billion years"},
		{"epoch", "2026-02-30", `invalid layout: cannot read the time "2026-02-30"`},
	} {
		p.set("#start", "default")
		p.hidden("#design-error")
		p.set("#"+c.field, c.value)
		if c.field == "unit" && strings.HasSuffix(c.value, "h") {
			p.set("#sequenceBits", "0")
		}
		p.shows("#design-error", c.says)
		p.hidden("#design-result")
		p.waitFor(fmt.Sprintf(`document.querySelector("#%s").getAttribute("aria-invalid") === "true"`, c.field))
	}
}

// If a reader opens a link, the page shows what it showed when the link was copied.
func TestLinkReopensTheSameState(t *testing.T) {
	url := serve(t, nil)
	p := open(t, url, "")
	p.set("#text", snowflake.ID(1541815603606036480).Base62()+"\n"+example.Base62())
	p.shows("#summary", "IDs 2")
	p.click(`#rows button[data-row="1"]`)
	p.set("#layout", "twitter")
	p.set("#start", "discord")
	p.set("#workerBits", "4")
	p.shows("#spelling", "41/0/5/4/12@2015-01-01")
	want := p.text("main")
	hash := p.hash()
	other := open(t, url, hash)
	other.shows("#one-title", example.String()+" as twitter")
	assert.Equal(t, want, other.text("main"))
	assert.Equal(t, hash, other.hash())

	// If the fragment changes in the same tab, as after a click on a link, the page follows.
	other.eval(`location.hash = "id=5&layout=redis"`, nil)
	other.shows("#one-title", "5 as redis")
	other.shows("#spelling", "--layout default")
}

func TestButtonsCopyTheirTexts(t *testing.T) {
	p := open(t, serve(t, nil), "id="+example.String())
	p.shows("#one-title", example.String())
	p.eval(`Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { window.copied = text; } } }); 0`, nil)
	for _, c := range []struct{ button, want string }{
		{`[aria-label="Copy decimal"]`, example.String()}, {`[aria-label="Copy base 32"]`, example.Base32()},
		{`[aria-label="Copy base 58"]`, example.Base58()}, {`[aria-label="Copy base 62"]`, example.Base62()},
		{`#link`, p.href()}, {`[data-copy="with-curl"]`, p.text0("#with-curl")},
		{`[data-copy="spelling"]`, "snowflake new --layout default"},
	} {
		if c.button == `[data-copy="spelling"]` {
			p.click(`[data-goto="designer"]`)
		}
		p.click(c.button)
		p.shows(c.button, "Copied")
		var copied string
		p.eval(`window.copied`, &copied)
		assert.Equal(t, c.want, copied)
	}
	p.click(`[data-copy="literal"]`)
	p.waitFor(`window.copied.startsWith("snowflake.Layout{\n\tEpoch:")`)

	// By plain HTTP a page has no clipboard, and copies as pages used to.
	p.click(`[data-goto="explain"]`)
	p.reload()
	p.shows("#one-title", example.String())
	p.eval(`Object.defineProperty(navigator, "clipboard", { value: undefined });
		document.execCommand = (command) => { window.copied = command + " " + document.activeElement.value; return true; }; 0`, nil)
	p.click(`[aria-label="Copy decimal"]`)
	p.waitFor(`window.copied === "copy ` + example.String() + `"`)
	p.eval(`document.execCommand = () => false; 0`, nil)
	p.click("#link")
	p.shows("#link", "Not copied")
}
