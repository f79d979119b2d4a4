package browser

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	update = flag.Bool("update", false, "write docs/page.png")
	shots  = flag.String("shots", "", "a `directory` for a screenshot of each state, to be looked at")
)

// states are the states of the page: a fragment, and an element that shows it.
var states = []struct{ name, fragment, selector, text string }{
	{"empty", "", "#sample", "1"},
	{"designer", "view=designer&design=39/0/0/16/8&epoch=2014-09-01&unit=10ms&last=1", "#facts", "workers"},
	{"one", "id=" + example.String(), "#fits", "default"},
	{"every field", "id=1541815603606036480&layout=designed&design=38/3/3/7/9&epoch=2016-01-01&unit=1ms", "#one-title", "designed"},
	{"many", "id=117469438034341930+117469439577829377+117469444397105152+117469444397105152", "#summary", "distinct"},
	{"errors", "id=117469438034341930%0A12x%0Ano%21&layout=jssafe&design=60/0/0/10/12", "#errors", "line 2"},
	{"ambiguous", "id=" + ambiguous.Base62(), "#reading-list", "base 58"},
	{"refused", "id=" + strings.Repeat("W", 300), "#error", "has 300 characters"},
}

// On a phone and on a desktop, nothing is cut off, nothing needs horizontal scrolling, and controls
// are large enough for a finger.
func TestEachStateFits(t *testing.T) {
	p := open(t, serve(t), "")
	for _, width := range []int64{320, 1280} {
		p.size(width, 740)
		for _, s := range states {
			p.goTo(s.fragment)
			p.shows(s.selector, s.text)
			p.noSideways()
			var bad []string
			p.eval(`[...document.querySelectorAll(".code")].filter((e) => e.checkVisibility())
				.filter((e) => e.querySelector("pre").getBoundingClientRect().right > e.querySelector("button").getBoundingClientRect().left)
				.concat([...document.querySelectorAll("pre, .scroll")].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth))
				.concat([...document.querySelectorAll("button, select, input, textarea, summary, footer a")].filter((e) => e.checkVisibility() && window.innerWidth < 600)
					.filter((e) => (e.closest("label") ?? e).getBoundingClientRect().height < 44))
				.map((e) => e.tagName + "#" + e.id + e.textContent)`, &bad)
			assert.Empty(t, bad, "%s, %d wide", s.name, width)
			for _, scheme := range []string{"light", "dark"} {
				if *shots != "" {
					var png []byte
					p.scheme(scheme)
					p.run(chromedp.FullScreenshot(&png, 100))
					require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%s-%s-%d.png", *shots, strings.ReplaceAll(s.name, " ", "-"), scheme, width), png, 0o644))
				}
			}
		}
	}
}

// noSideways checks that no element is wider than the window.
func (p *tab) noSideways() {
	p.t.Helper()
	var wide string
	p.eval(`document.documentElement.scrollWidth <= window.innerWidth ? "" : [...document.querySelectorAll("body *")]
		.filter((e) => e.getBoundingClientRect().right > window.innerWidth + 1).map((e) => e.tagName + "#" + e.id).join(" ") || "something"`, &wide)
	require.Empty(p.t, wide, "the page scrolls sideways")
}

func TestSchemeFollowsTheSystemOrTheSwitch(t *testing.T) {
	p := open(t, serve(t), "")
	ground := func() (color string) {
		t.Helper()
		p.eval(`getComputedStyle(document.body).backgroundColor`, &color)
		return color
	}
	light := ground()
	p.scheme("dark")
	require.NotEqual(t, light, ground())
	p.click("#theme")
	p.shows("#theme", "Theme: light")
	p.reload() // the choice is kept
	p.shows("#theme", "Theme: light")
	assert.Equal(t, light, ground())
}

// tabTo presses the Tab key until an element has the focus, and checks that the focus is always
// visible.
func (p *tab) tabTo(selector string) {
	p.t.Helper()
	for range 60 {
		p.run(chromedp.KeyEvent(kb.Tab))
		var focus struct{ There, Outline bool }
		p.eval(fmt.Sprintf(`(() => {
			const e = document.activeElement, style = getComputedStyle(e);
			return { There: e.matches(%q), Outline: e === document.body || style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 };
		})()`, selector), &focus)
		require.True(p.t, focus.Outline, "the focus cannot be seen")
		if focus.There {
			return
		}
	}
	p.t.Fatalf("%s is not reached by the tabulator", selector)
}

func TestKeyboardOnly(t *testing.T) {
	p := open(t, serve(t), "")
	for _, c := range []struct{ focus, keys, selector, shows string }{
		{"#text", ambiguous.Base62(), "#one-title", ambiguous.String()},
		{"#layout", "t", "#one-title", "as twitter"},
		{"#chips button:nth-child(2)", kb.Enter, "#one-title", " as "},
		{"#ruled-out summary", kb.Enter, "#nots", "jssafe"},
		{"#issue", kb.Enter, "#live-status", "10 IDs issued"},
		{"#issued button", kb.Enter, "#one-title", "1"},
		{`[data-goto="designer"]`, kb.Enter, "#facts", "workers"},
		{"#workerBits", "7", "#spelling", "41/7/12"}, // in place of what the tabulator selected
		{"#workerLast", " ", "#spelling", ",worker-last"},
		{"#theme", kb.Enter, "#theme", "Theme: light"},
	} {
		p.tabTo(c.focus)
		p.run(chromedp.KeyEvent(c.keys))
		p.shows(c.selector, c.shows)
	}
}

// docs/page.png is the README's picture. go test -run Picture -update rewrites it.
func TestPictureOfThePage(t *testing.T) {
	const path = "../../../../docs/page.png"
	if *update {
		p := open(t, serve(t), "id="+example.String())
		p.shows("#fits", "default")
		p.eval(`document.activeElement.blur()`, nil)
		var png []byte
		p.run(emulation.SetDeviceMetricsOverride(960, 1010, 1.2, false), chromedp.CaptureScreenshot(&png))
		require.NoError(t, os.WriteFile(path, png, 0o644))
	}
	info, err := os.Stat(path)
	require.NoError(t, err, "go test ./internal/lab/drivers/browser -run Picture -update")
	assert.LessOrEqual(t, info.Size(), int64(150<<10))
}
