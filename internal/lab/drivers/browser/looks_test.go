package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

var (
	update = flag.Bool("update", false, "write docs/page.png")
	shots  = flag.String("shots", "", "a `directory` for a screenshot of each state, to be looked at")
)

// states are what the page can show: a fragment, and what shows that it is there.
var states = []struct{ name, fragment, selector, text string }{
	{"empty", "", "#sample", "1"},
	{"designer", "view=designer&design=39/0/0/16/8&epoch=2014-09-01&unit=10ms&last=1", "#facts", "workers"},
	{"one", "id=" + example.String(), "#one-title", example.String()},
	{"tweet", "id=1541815603606036480&layout=twitter&design=39/0/0/16/8&epoch=2014-09-01&unit=10ms&last=1", "#one-title", "twitter"},
	{"every field", "id=1541815603606036480&layout=designed&design=38/3/3/7/9&epoch=2016-01-01&unit=1ms", "#one-title", "designed"},
	{"many", "id=117469438034341930+117469439577829377+117469444397105152+117469444397105152", "#summary", "distinct"},
	{"errors", "id=117469438034341930%0A12x%0Ano%21&layout=jssafe&design=60/0/0/10/12", "#errors", "line 2"},
	{"ambiguous", "id=" + ambiguous.Base62(), "#reading-list", "base 58"},
	{"refused", "id=" + strings.Repeat("W", 300), "#error", "has 300 characters"},
	{"opaque", "id=order_6jBeLMBn6gylueyOncP6gT", "#error", "opaque"},
	{"typed", "id=order_" + example.Base32(), "#reading-list", "typed"},
}

// show opens a state.
func (p *tab) show(i int) {
	p.t.Helper()
	s := states[i]
	p.goTo(s.fragment)
	p.waitFor(`document.querySelector("#text").value === (new URLSearchParams(location.hash.slice(1)).get("id") ?? "") &&
		document.querySelector("#result").getAttribute("aria-busy") !== "true"`)
	p.shows(s.selector, s.text)
	if s.name != "empty" && s.name != "designer" && s.selector != "#error" {
		p.waitFor(`document.querySelector("#fits li") !== null`)
	}
	p.eval(`document.querySelector("#ruled-out").open = true`, nil)
}

// contrasts lists the texts of the page whose contrast with what is under them is
// less than 4.5, and the controls whose edge has less than 3.
const contrasts = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const known = new Map();
	const rgba = (color) => {
		if (!known.has(color)) known.set(color, read(color));
		return known.get(color);
	};
	const read = (color) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = color;
		canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data];
	};
	const light = ([r, g, b]) => {
		const f = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
		return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
	};
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			const c = rgba(getComputedStyle(e).backgroundColor);
			if (c[3] === 255) return c;
		}
		return rgba("Canvas");
	};
	const ratio = (a, b) => {
		const [x, y] = [light(a), light(b)].sort((x, y) => y - x);
		return (x + 0.05) / (y + 0.05);
	};
	const seen = (e) => e.checkVisibility() && !e.classList.contains("hidden");
	const bad = [];
	let texts = 0;
	const hold = (e, color, under, least, what) => {
		texts++;
		const r = ratio(rgba(color), under);
		if (r < least) bad.push(what + " " + e.tagName + "#" + e.id + "." + e.className + " " + e.textContent.slice(0, 20) + ": " + r.toFixed(2));
	};
	for (const e of document.querySelectorAll("body *")) {
		if (!seen(e)) continue;
		const style = getComputedStyle(e);
		if ([...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || e.matches("input:not([type]), textarea, select")) hold(e, style.color, ground(e), 4.5, "text");
		if (e.matches("textarea")) hold(e, getComputedStyle(e, "::placeholder").color, ground(e), 4.5, "placeholder");
		if (e.dataset.bit) hold(e, getComputedStyle(e, "::before").color, ground(e.parentElement), 4.5, "number of a bit");
		if (e.matches("input:not([type]), textarea, select")) hold(e, style.borderTopColor, ground(e.parentElement), 3, "edge");
	}
	return { Bad: bad, Texts: texts };
})()`

func TestEachStateIsReadableAndFitsAPhone(t *testing.T) {
	schemes, widths := []string{"light", "dark"}, []int64{320, 390, 600, 1280}
	all := depth.Full() || *shots != ""
	if !all {
		widths = widths[1:2]
	}
	p := open(t, serve(t, nil), "")
	for _, width := range widths {
		p.size(width, 740)
		for i, s := range states {
			p.show(i)
			for j, scheme := range schemes {
				if !all && j != i%2 {
					continue
				}
				p.scheme(scheme)
				var found struct {
					Bad   []string
					Texts int
				}
				p.eval(contrasts, &found)
				assert.Empty(t, found.Bad, "%s, %s", s.name, scheme)
				assert.Greater(t, found.Texts, 30)
				p.shot(fmt.Sprintf("%s-%s-%d", s.name, scheme, width))
			}
			p.noSideways()
			p.nothingIsCut()
			var small []string
			p.eval(`[...document.querySelectorAll("button, select, input, textarea, summary, footer a")].filter((e) => e.checkVisibility())
				.filter((e) => (e.closest("label") ?? e).getBoundingClientRect().height < 44).map((e) => e.id + e.textContent)`, &small)
			assert.True(t, width > 600 || len(small) == 0, "controls that a finger misses: %q", small)
		}
	}
}

// nothingIsCut checks that no code runs under its button, and that nothing has to be scrolled
// sideways.
func (p *tab) nothingIsCut() {
	p.t.Helper()
	var cut []string
	p.eval(`[...document.querySelectorAll(".code")].filter((e) => e.checkVisibility())
		.filter((e) => e.querySelector("pre").getBoundingClientRect().right > e.querySelector("button").getBoundingClientRect().left)
		.concat([...document.querySelectorAll("pre, .scroll")].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth))
		.map((e) => e.className + "#" + e.id + e.textContent)`, &cut)
	assert.Empty(p.t, cut)
}

// ground is the colour under the page.
func (p *tab) ground() (color string) {
	p.t.Helper()
	p.eval(`getComputedStyle(document.body).backgroundColor`, &color)
	return color
}

func TestSchemeFollowsTheSystemOrTheSwitch(t *testing.T) {
	p := open(t, serve(t, nil), "")
	light := p.ground()
	p.scheme("dark")
	dark := p.ground()
	require.NotEqual(t, light, dark)
	p.click("#theme")
	p.shows("#theme", "Theme: light")
	assert.Equal(t, light, p.ground())
	p.reload() // and it is remembered
	p.shows("#theme", "Theme: light")
	assert.Equal(t, light, p.ground())
	p.click("#theme")
	p.shows("#theme", "Theme: dark")
	p.scheme("light")
	assert.Equal(t, dark, p.ground())
	p.click("#theme")
	p.shows("#theme", "Theme: auto")
	assert.Equal(t, light, p.ground())
}

// press presses a key some times.
func (p *tab) press(key string, times int) {
	p.t.Helper()
	for range times {
		p.run(chromedp.KeyEvent(key))
	}
}

// tabTo presses the tabulator until an element has the focus.
func (p *tab) tabTo(selector string) {
	p.t.Helper()
	for range 60 {
		p.press(kb.Tab, 1)
		var there bool
		p.eval(fmt.Sprintf(`document.activeElement.matches(%q)`, selector), &there)
		if there {
			return
		}
	}
	p.t.Fatalf("%s is not reached by the tabulator", selector)
}

func TestKeyboardOnly(t *testing.T) {
	p := open(t, serve(t, nil), "")
	p.tabTo("#text")
	p.run(chromedp.KeyEvent(ambiguous.Base62()))
	p.shows("#one-title", ambiguous.String())
	p.tabTo(`#reading-list input`)
	p.press(kb.ArrowDown, 1)
	p.waitFor(`document.querySelector("#reading-list input:checked").value === "base 58" && document.activeElement.value === "base 58"`)
	p.press(kb.ArrowUp, 1)
	p.shows("#one-title", ambiguous.String())
	p.tabTo("#layout")
	p.run(chromedp.KeyEvent("t"))
	p.shows("#one-title", "as twitter")
	p.tabTo(`#chips button:nth-child(2)`)
	var name string
	p.eval(`document.activeElement.value`, &name)
	p.press(kb.Enter, 1)
	p.shows("#one-title", "as "+name)
	p.waitFor(fmt.Sprintf(`document.activeElement.value === %q`, name))
	p.tabTo("#ruled-out summary")
	p.press(kb.Enter, 1)
	p.shows("#nots", "jssafe")
	p.tabTo("#issue")
	p.press(kb.Enter, 1)
	p.shows("#live-status", "10 IDs issued")
	p.tabTo("#issued button")
	p.press(kb.Enter, 1)
	p.shows("#one-title", " as ")
	p.tabTo(`[data-goto="designer"]`)
	p.press(kb.Enter, 1)
	p.tabTo("#workerBits")
	p.run(chromedp.KeyEvent("7")) // in place of what the tabulator selected
	p.shows("#spelling", "41/7/12")
	p.tabTo("#workerLast")
	p.press(" ", 1)
	p.shows("#spelling", ",worker-last")
	p.tabTo("#theme")
	p.press(kb.Enter, 1)
	p.shows("#theme", "Theme: light")
}

// Whatever has the focus shows it, and nothing keeps it.
func TestFocusIsVisibleAndMovesOn(t *testing.T) {
	p := open(t, serve(t, nil), "id=117469438034341930+117469439577829377")
	p.waitFor(`document.querySelector("#fits li") !== null`)
	var all int
	p.eval(`[...document.querySelectorAll("button, input, select, textarea, summary, [tabindex='0']")].filter((e) => e.checkVisibility()).length`, &all)
	seen := map[string]bool{}
	for range all + 5 {
		p.press(kb.Tab, 1)
		var focus struct {
			Path    string
			Outline bool
		}
		p.eval(`(() => {
			const e = document.activeElement;
			e.dataset.visit ??= String(Math.random());
			const style = getComputedStyle(e);
			return { Path: e.dataset.visit, Outline: e === document.body || style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 };
		})()`, &focus)
		require.True(t, focus.Outline, "the focus cannot be seen")
		seen[focus.Path] = true
	}
	assert.GreaterOrEqual(t, len(seen), all, "the tabulator reaches each control")
}

func TestControlsHaveNames(t *testing.T) {
	p := open(t, serve(t, nil), "id="+ambiguous.Base62()+"+"+(ambiguous+1).Base62())
	p.waitFor(`document.querySelector("#fits li") !== null`)
	p.click("#issue")
	p.shows("#live-status", "10 IDs issued")
	// The browser has reasons that package accessibility does not know: take what is used.
	type value struct {
		Value any `json:"value"`
	}
	var tree struct {
		Nodes []struct {
			Ignored bool  `json:"ignored"`
			Role    value `json:"role"`
			Name    value `json:"name"`
		} `json:"nodes"`
	}
	p.run(chromedp.ActionFunc(func(ctx context.Context) error {
		return cdp.Execute(ctx, accessibility.CommandGetFullAXTree, nil, &tree)
	}))
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		role := fmt.Sprint(n.Role.Value)
		switch role {
		case "button", "textbox", "combobox", "radio", "checkbox", "meter", "image", "table", "region", "heading":
			if !n.Ignored {
				roles[role]++
				assert.NotEmpty(t, n.Name.Value, "%s without a name", role)
			}
		}
	}
	for _, role := range []string{"button", "textbox", "combobox", "radio", "checkbox", "meter", "image", "table", "region", "heading"} {
		assert.Positive(t, roles[role], role)
	}
}

// shot writes a screenshot of the whole page if the flag -shots is set.
func (p *tab) shot(name string) {
	p.t.Helper()
	if *shots == "" {
		return
	}
	var png []byte
	p.run(chromedp.FullScreenshot(&png, 100))
	require.NoError(p.t, os.WriteFile(*shots+"/"+strings.ReplaceAll(name, " ", "-")+".png", png, 0o644))
}

// docs/page.png is what the README shows. go test -run Picture -update writes it anew.
func TestPictureOfThePage(t *testing.T) {
	const path = "../../../../docs/page.png"
	if *update {
		p := open(t, serve(t, nil), "id="+example.String())
		p.waitFor(`document.querySelector("#fits li") !== null`)
		p.eval(`document.activeElement.blur()`, nil)
		p.run(emulation.SetDeviceMetricsOverride(960, 1010, 1.2, false))
		var png []byte
		p.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
			png, err = cdppage.CaptureScreenshot().WithFormat(cdppage.CaptureScreenshotFormatPng).
				WithClip(&cdppage.Viewport{X: 0, Y: 0, Width: 960, Height: 1010, Scale: 1}).Do(ctx)
			return err
		}))
		require.NoError(t, os.WriteFile(path, png, 0o644))
	}
	info, err := os.Stat(path)
	require.NoError(t, err, "go test ./internal/lab/drivers/browser -run Picture -update")
	assert.LessOrEqual(t, info.Size(), int64(150<<10))
}
