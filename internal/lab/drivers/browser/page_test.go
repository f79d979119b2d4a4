package browser

import (
	"bytes"
	"fmt"
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

// ambiguous has a text that is one ID in base 62 and another in base 58.
const ambiguous = snowflake.ID(1750000028684845056)

func TestIDExplainsItself(t *testing.T) {
	p := open(t, serve(t), "")
	p.hidden("#result")
	p.click("#sample") // an ID of the current time
	p.shows("#likely", "default (this server), 2026")
	p.set("#text", example.String())
	p.shows("#one-title", "117469438034341930 as default")
	p.shows("#utc", "2026-11-21T03:41:36.504Z")
	assert.Equal(t, "2026-11-21 04:41:36.504 +01:00, your time (Europe/Berlin)", p.text("#local"))
	assert.Equal(t, "8 hours ago", p.text("#ago"))
	assert.Contains(t, p.text("#fields"), "worker bits 21–12 7 of 0 to 1,023 sequence bits 11–0 42 of 0 to 4,095")
	for _, text := range []string{example.String(), example.Base32(), example.Base58(), example.Base62()} {
		assert.Contains(t, p.text("#forms"), text)
	}
	assert.Equal(t, fmt.Sprintf("%064b", int64(example)), strings.ReplaceAll(p.text("#bits"), " ", ""))
	assert.Contains(t, p.text("#rounded"), "this one to 117469438034341936")
	assert.NotContains(t, p.text("#chips")+p.text("#fits"), "%", "a percentage of a single ID would look measured")
}

// The page parses some forms itself, and asks the server about others.
func TestTextsAreReadOrRefusedByLine(t *testing.T) {
	codec, err := opaque.New(bytes.Repeat([]byte{7}, 32), "order")
	require.NoError(t, err)
	p := open(t, serve(t), "")
	p.expected = "Failed to load resource" // the server refuses some of them
	for _, c := range []struct{ text, selector, shows string }{
		{" \"" + example.Base32() + "\",\n", "#reading-list", "base 32"},
		{example.Base58(), "#reading-list", "base 58"},
		{"order_" + example.Base32() + "\nline_item_" + (example + 1).Base32(), "#reading-list", "typed"},
		{fmt.Sprintf("%016X", int64(example)), "#reading-list", "hexadecimal"},
		{"3jzfcijpj2z2a\n\n3jzfcijpj2z2b", "#rows", "3 "}, // Bluesky's
		{"https://www.instagram.com/p/BsOGulcndj-/", "#fits", "the URL is of www.instagram.com"},
		{"https://x.com/a/status/1541815603606036480?s=20", "#one-title", "1541815603606036480 as twitter"},
		// Digits are decimal, although other forms have them, too.
		{"22345678912", "#reading-list", "decimal base"},
		{codec.Encode(example), "#error", "may be an opaque text, which only a program with its key reads"},
		{example.String() + "\n" + codec.Encode(example), "#errors", `line 2: not an ID: "` + codec.Encode(example) + `" may be an opaque text`},
		{example.String() + "\n12x", "#errors", `line 2: not an ID: decimal "12x": it has a character that is not a digit`},
		{"\nthis-is-not-one", "#error", "line 2: not an ID: "},
		{"018f6b1e-5c3b-7c8e-9d2a-0123456789ab", "#error", "a UUID, version 7"},
		{"9223372036854775808", "#error", `decimal "9223372036854775808": it is over 9223372036854775807`},
		{ambiguous.Base62(), "#one-title", ambiguous.String()},
	} {
		p.set("#text", c.text)
		p.shows(c.selector, c.shows)
	}
	asBase58, err := snowflake.ParseBase58(ambiguous.Base62())
	require.NoError(t, err)
	p.click(`#reading-list input[value="base 58"]`)
	p.shows("#one-title", asBase58.String())
}

func TestServerThatIsDownOrHasTokensIsExplained(t *testing.T) {
	p := open(t, serve(t), "")
	p.expected = "Failed to load resource"
	p.shows("#with-curl", p.url+"id")
	// The connection breaks.
	serves("/", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	const down = "the server does not answer: it is down, or the network is"
	p.click("#issue")
	p.shows("#live-error", "No IDs: "+down)
	p.set("#text", example.String()) // it still explains the forms that it parses itself
	p.shows("#fit-error", "Which layouts fit is not known, because "+down)
	p.shows("#one-title", example.String())

	// Other requests would be errors of the page.
	serves("/", page.Handler(snowflake.DefaultLayout(), &page.Options{NeedsToken: true}).ServeHTTP)
	p.reload()
	p.shows("#live-status", "This server asks for a token, and this page has none")
	p.waitFor(`document.querySelector("#issue").disabled && document.querySelector("#keep").disabled`)
	p.shows("#with-curl", "Authorization")
}

func TestLayoutsAreChosen(t *testing.T) {
	layout := snowflake.Layout{
		Epoch:        snowflake.DefaultLayout().Epoch,
		Unit:         time.Millisecond,
		TimeBits:     41,
		WorkerBits:   1,
		SequenceBits: 21,
	}
	id, err := layout.Encode(snowflake.Parts{Time: noon.Add(-time.Hour), Worker: 1, Sequence: 3})
	require.NoError(t, err)
	p := open(t, serveLayout(t, layout), "id="+id.String())
	p.shows("#one-title", id.String()+" as this server") // its own layout comes first
	// An early tweet, whose time would be in the future.
	p.set("#text", "350646689377419265")
	p.waitFor(`!document.querySelector("#one-title").innerText.includes("this server")`)
	p.set("#layout", "this server")
	p.shows("#warning", "Its time lies in the future")
	p.click(`#chips button[value="discord"]`)
	p.shows("#one-title", "as discord")
	p.set("#layout", "jssafe")
	p.shows("#warning", "Not an ID of jssafe: 350646689377419265 has 59 bits, the layout 52")
	p.set("#layout", "twitter")
	p.shows("#utc", "2013-06-28T16:07:40.105Z")
	p.set("#layout", "designed")
	p.set("#workerBits", "99")
	p.shows("#warning", "The designed layout is invalid: ")
}

func TestManyIDs(t *testing.T) {
	p := open(t, serve(t), "")
	var log strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&log, "2026-11-21T12:00:00Z level=INFO msg=\"order placed\" id=%v took=3ms\n", example+snowflake.ID(i/2))
	}
	p.set("#text", log.String())
	p.shows("#summary", "IDs 2,000, of which 1,000 are distinct")
	p.shows("#reading-list", "IDs in a log")
	p.shows("#more", "Show 500 more of 1,950")
	var elements int
	p.eval(`document.querySelectorAll("*").length`, &elements)
	assert.Less(t, elements, 1200, "not every line becomes elements")
	assert.Less(t, len(p.hash()), 100, "the link holds the selected ID only")
	p.click("#more")
	p.shows("#more", "Show 500 more of 1,450")
	p.click(`#rows button[data-row="119"]`)
	p.shows("#one-title", (example + 59).String())

	// A paste replaces the previous one, even while the page is processing it.
	p.set("#text", log.String()+log.String())
	p.set("#text", example.String())
	p.shows("#one-title", example.String())
	p.hidden("#many")
}

func TestHostileTextIsInert(t *testing.T) {
	long := depth.Of(5_000, 200_000)
	p := open(t, serve(t), "")
	p.expected = "Failed to load resource"
	p.size(360, 800)
	for _, text := range []string{
		`<img src=x onerror="window.pwned=1">`,
		`<script>window.pwned=1</script>117469438034341930<b>117469438034341930</b>`,
		"\u202e117469438034341930\u202d \u2067abc", strings.Repeat("W", long), strings.Repeat("9", long),
		"\x00\x1b[31m\ufffd\ud7ff", "__proto__", "constructor", "0x10", "1e18", "NaN", "१२३४५६७८९०१२३४५६",
	} {
		p.set("#text", text)
		p.waitFor(`document.querySelector("#busy").hidden && !(document.querySelector("#result").hidden && document.querySelector("#error").hidden)`)
		for _, field := range []string{"#epoch", "#unit", "#timeBits"} {
			p.set(field, text)
			p.shows("#design-error", "invalid layout: ")
			p.inert()
		}
		p.set("#start", "default")
	}
	for _, fragment := range []string{
		"id=<img src=x onerror=window.pwned=1>&layout=<b>&as=<b>&n=<b>", "design=<b>/<b>/<b>/<b>/<b>&epoch=<b>&unit=<b>&last=1", "%", "%zz&id=%ff%fe", "n=-5&id=1", "n=1e99&id=1",
		"n=NaN&id=1", "layout=__proto__&id=1", "as=constructor&id=22345678912", "design=////", "&&==&id", strings.Repeat("id=", 5000), "design=41/0/0/10/12&epoch=99999999999999999999&unit=ms",
	} {
		p.goTo(fragment)
		p.waitFor(`document.querySelector("#start").options.length > 10 && document.querySelector("#facts") !== null`)
		p.inert()
	}
}

// inert checks that text did not become elements or code, and that it fits.
func (p *tab) inert() {
	p.t.Helper()
	var found int
	p.eval(`document.querySelectorAll("img, b, iframe, script:not([src]), style").length + (window.pwned ?? 0)`, &found)
	require.Zero(p.t, found)
	p.noSideways()
}

func TestIDsAreIssuedLive(t *testing.T) {
	p := open(t, serve(t), "")
	p.click("#issue")
	p.shows("#live-status", "10 IDs issued")
	p.click("#keep")
	p.waitFor(`parseInt(document.querySelector("#live-status").textContent) >= 70 && document.querySelectorAll("#issued button").length === 50`)
	p.click("#keep")
	p.click("#issued button") // an answer that is still on its way may put other IDs above it
	p.waitFor(`[...document.querySelectorAll("#issued button")].some((b) => document.querySelector("#one-title").innerText.startsWith(b.dataset.id + " as "))`)

	p.expected = "Failed to load resource"
	for _, c := range []struct {
		status     int
		body, says string
	}{
		{503, `{"code":"unavailable","message":"the store is away"}`, "No IDs: the server answered 503 Service Unavailable: the store is away"},
		{200, "<b>hello</b>", `No IDs: the server answered "<b>hello</b>"`},
		{200, `{"ids":["5","-7"]}`, `decimal "-7"`},
		{200, `{"ids":[5]}`, "a Number may have lost digits"},
	} {
		serves("GET /ids", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		p.click("#issue")
		p.shows("#live-error", c.says)
	}
}

func TestDesigner(t *testing.T) {
	p := open(t, serve(t), "view=designer")
	p.shows("#facts", "IDs a second 4,096,000 for one worker, 4,194,304,000 in all")
	p.shows("#facts", "within 2^53 no; 63 bits: JavaScript’s Numbers round IDs from 2026-01-25T")
	p.shows("#spelling", "snowflake new --layout default")
	p.set("#start", "baidu")
	p.shows("#facts", "which is past: no more IDs can be issued")
	p.set("#start", "jssafe")
	p.shows("#facts", "within 2^53 yes; 52 bits")
	for field, value := range map[string]string{
		"timeBits":       "38",
		"clockSeqBits":   "1",
		"datacenterBits": "2",
		"workerBits":     "6",
		"sequenceBits":   "9",
		"unit":           "10ms",
		"epoch":          "2020-02-29",
	} {
		p.set("#"+field, value)
	}
	p.click("#workerLast")
	p.shows("#facts", "workers 64 in each datacenter, 256 in all")
	p.shows("#spelling", "snowflake new --layout 38/1/2/6/9@2020-02-29,10ms,worker-last")
	p.shows("#literal", "Unit: 10 * time.Millisecond,")
	assert.Contains(t, p.hash(), "design=38%2F1%2F2%2F6%2F9&epoch=2020-02-29&unit=10ms&last=1")
	for _, c := range []struct{ field, value, says string }{ // in the library's words
		{"timeBits", "60", "invalid layout: 82 bits in all, an ID has 63"},
		{"unit", "-5ms", "invalid layout: unit -5ms is not positive"},
		{"epoch", "2026-02-30", `invalid layout: cannot read the time "2026-02-30"`},
	} {
		p.set("#start", "default")
		p.hidden("#design-error")
		p.set("#"+c.field, c.value)
		p.shows("#design-error", c.says)
		p.hidden("#design-result")
	}
}

// A link restores the state of the page at the time when it was copied.
func TestLinkReopensTheSameState(t *testing.T) {
	url := serve(t)
	p := open(t, url, "")
	p.set("#text", snowflake.ID(1541815603606036480).Base62()+"\n"+example.Base62())
	p.shows("#summary", "IDs 2")
	p.click(`#rows button[data-row="1"]`)
	p.set("#layout", "twitter")
	p.set("#start", "discord")
	p.set("#workerBits", "4")
	p.shows("#spelling", "41/0/5/4/12@2015-01-01")
	want, hash := p.text("main"), p.hash()
	other := open(t, url, hash)
	other.shows("#one-title", example.String()+" as twitter")
	assert.Equal(t, want, other.text("main"))
	assert.Equal(t, hash, other.hash())
	other.goTo("id=5&layout=redis") // in the same tab, like a click on a link
	other.shows("#one-title", "5 as redis")
}

func TestButtonsCopyTheirTexts(t *testing.T) {
	p := open(t, serve(t), "id="+example.String())
	p.shows("#one-title", example.String())
	// The buttons keep their words, however late the test looks.
	p.eval(`window.setTimeout = ((real) => (f, ms) => ms > 1000 ? 0 : real(f, ms))(window.setTimeout); 0`, nil)
	p.eval(`Object.defineProperty(navigator, "clipboard", { configurable: true, value: { writeText: async (text) => { window.copied = text; } } }); 0`, nil)
	for button, want := range map[string]string{
		`[aria-label="Copy base 32"]`: example.Base32(),
		`#link`:                       p.url,
		`[data-copy="with-curl"]`:     "curl",
	} {
		p.click(button)
		p.shows(button, "Copied")
		p.waitFor(fmt.Sprintf(`window.copied.startsWith(%q)`, want))
	}
	// As with plain HTTP.
	p.eval(`Object.defineProperty(navigator, "clipboard", { configurable: true, value: undefined }); document.execCommand = () => false; 0`, nil)
	p.click("#link")
	p.shows("#link", "Not copied")
}
