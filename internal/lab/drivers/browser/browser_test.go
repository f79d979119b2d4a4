package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/answers"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/server/page"
)

// chromium starts one browser with one tab for all tests, because opening a tab takes longer than
// most tests. The tab's time zone is Berlin's.
var chromium = sync.OnceValues(func() (context.Context, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium"), chromedp.WSURLReadTimeout(2*time.Minute), chromedp.DisableGPU)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	quit = func() {
		_ = chromedp.Cancel(ctx) // waits for the process
		cancel()
		stop()
	}
	return ctx, chromedp.Run(ctx,
		network.Enable(), log.Enable(), runtime.Enable(),
		emulation.SetTimezoneOverride("Europe/Berlin"),
		emulation.SetLocaleOverride().WithLocale("en-GB"),
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := cdppage.AddScriptToEvaluateOnNewDocument(fmt.Sprintf(`
				Date.now = () => %d;
				const interval = window.setInterval;
				window.setInterval = (f, ms) => interval(f, ms / 20);`, noon.UnixMilli())).Do(ctx)
			return err
		}),
	)
})

// quit ends the browser, if there is one.
var quit = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	quit()
	os.Exit(code)
}

// noon is the time of the page's clock.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// tab is the page in the browser's tab.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	errors   []string // of the console
	requests []string // to URLs outside the page's folder
	expected string   // an error that the test provokes
}

// patience limits each wait, and longest each test, even on a slow machine.
const (
	patience = 2 * time.Minute
	longest  = 8 * time.Minute
)

// serve serves the page of a server with the default layout, and IDs and guesses in the same
// folder.
func serve(t *testing.T) string {
	t.Helper()
	return serveLayout(t, snowflake.DefaultLayout())
}

func serveLayout(t *testing.T, l snowflake.Layout) string {
	t.Helper()
	begun := time.Now() // whatever the day is, the IDs are of the time of the page's clock
	clock := snowflake.ClockFunc(func() time.Time { return noon.Add(time.Since(begun)) })
	gen, err := snowflake.New(1, &snowflake.Options{Layout: l, Clock: clock})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", page.Handler(l, nil))
	mux.HandleFunc("GET /ids", func(w http.ResponseWriter, r *http.Request) {
		var answer struct {
			IDs [10]snowflake.ID `json:"ids"`
		}
		for i := range answer.IDs {
			answer.IDs[i], _ = gen.NextID()
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
	mux.HandleFunc("POST /identify", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		readings, err := texts.IDs(strings.Fields(string(body)))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"message": err.Error()})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answers.Identify(readings, noon))
	})
	served.Store(mux)
	return origin()
}

// served is the handler of the one server for all tests: for another origin, the browser would
// start another process.
var served atomic.Pointer[http.ServeMux]

var origin = sync.OnceValue(func() string {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { served.Load().ServeHTTP(w, r) })).URL + "/"
})

// serves sets the handler of the server.
func serves(pattern string, f http.HandlerFunc) {
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, f)
	served.Store(mux)
}

// opened counts the pages, so that each has its own URL.
var opened int

// open opens the page in the tab, in a wide window and light colors. At the end of the test it
// checks that the page has logged no error, and sent no request elsewhere.
func open(t *testing.T, url, fragment string) *tab {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: without the browser")
	}
	if _, err := exec.LookPath("chromium"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("chromium is not installed: apt-get install chromium")
		}
		t.Skip("chromium is not installed: apt-get install chromium")
	}
	ctx, err := chromium()
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(ctx, longest)
	t.Cleanup(stop)
	p := &tab{t: t, ctx: ctx, url: url}
	chromedp.ListenTarget(ctx, p.listen)
	p.size(1000, 1400)
	p.scheme("light")
	opened++
	p.run(chromedp.Navigate(fmt.Sprintf("%s?%d#%s", url, opened, fragment)))
	t.Cleanup(p.leave)
	return p
}

// leave checks the page's errors and requests, and clears its storage.
func (p *tab) leave() {
	// This fails if the test took too long.
	_ = chromedp.Run(p.ctx, chromedp.Evaluate(`localStorage.clear()`, nil))
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.errors {
		assert.True(p.t, p.expected != "" && strings.Contains(e, p.expected), "the page wrote to the console: %s", e)
	}
	assert.Empty(p.t, p.requests, "the page asked another place")
}

func (p *tab) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		args, _ := json.Marshal(e.Args)
		p.errors = append(p.errors, fmt.Sprintf("console.%s %s", e.Type, args))
	case *log.EventEntryAdded:
		p.errors = append(p.errors, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, p.url) {
			p.requests = append(p.requests, e.Request.URL)
		}
	}
}

func (p *tab) run(actions ...chromedp.Action) {
	p.t.Helper()
	require.NoError(p.t, runInPage(p.ctx, actions...))
}

// runInPage runs actions. While the page is reloading, the browser may still use the previous page:
// then runInPage tries again.
func runInPage(ctx context.Context, actions ...chromedp.Action) error {
	for {
		err := chromedp.Run(ctx, actions...)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "Cannot find context with specified id") {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// reload reloads the page.
func (p *tab) reload() {
	p.t.Helper()
	p.run(chromedp.Reload())
}

// goTo changes the fragment, like a click on a link.
func (p *tab) goTo(fragment string) {
	p.t.Helper()
	p.eval(fmt.Sprintf(`location.hash = %q; 0`, fragment), nil)
}

func (p *tab) size(width, height int64) {
	p.t.Helper()
	p.run(chromedp.EmulateViewport(width, height))
}

// scheme sets the system's color scheme, light or dark.
func (p *tab) scheme(name string) {
	p.t.Helper()
	p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
}

// eval evaluates an expression in the page.
func (p *tab) eval(js string, result any) {
	p.t.Helper()
	p.run(chromedp.Evaluate(js, result))
}

// text returns an element's text, with single spaces.
func (p *tab) text(selector string) (text string) {
	p.t.Helper()
	p.eval(fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? "nothing").replace(/\s+/g, " ").trim()`, selector), &text)
	return text
}

// often polls at short intervals, without waiting for the browser to draw.
var often = chromedp.WithPollingInterval(20 * time.Millisecond)

// waitFor waits until an expression is true.
func (p *tab) waitFor(js string) {
	p.t.Helper()
	p.run(chromedp.Poll(js, nil, often, chromedp.WithPollingTimeout(patience)))
}

// shows waits until an element shows a text.
func (p *tab) shows(selector, text string) {
	p.t.Helper()
	err := runInPage(p.ctx, chromedp.Poll(fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? "").replace(/\s+/g, " ").includes(%q)`, selector, text), nil,
		often, chromedp.WithPollingTimeout(patience)))
	require.NoError(p.t, err, "%s shows %q, not %q", selector, p.text(selector), text)
}

// hidden waits until an element is invisible.
func (p *tab) hidden(selector string) {
	p.t.Helper()
	p.waitFor(fmt.Sprintf(`(document.querySelector(%q)?.offsetParent ?? null) === null`, selector))
}

// set puts a value into a control, like a paste.
func (p *tab) set(selector, value string) {
	p.t.Helper()
	quoted, err := json.Marshal(value)
	require.NoError(p.t, err)
	p.eval(fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.focus();
		e.value = %s;
		e.dispatchEvent(new Event("input", { bubbles: true }));
		e.dispatchEvent(new Event("change", { bubbles: true }));
	})()`, selector, quoted), nil)
}

// click clicks an element with the mouse, once it is visible.
func (p *tab) click(selector string) {
	p.t.Helper()
	var at struct{ X, Y float64 }
	p.waitFor(fmt.Sprintf(`document.querySelector(%q)?.checkVisibility() ?? false`, selector))
	p.eval(fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.scrollIntoView({ block: "center", behavior: "instant" });
		const r = e.getBoundingClientRect();
		const at = { X: r.x + r.width / 2, Y: r.y + r.height / 2 };
		if (!e.contains(document.elementFromPoint(at.X, at.Y))) throw new Error("something covers it");
		return at;
	})()`, selector), &at)
	p.run(chromedp.MouseClickXY(at.X, at.Y))
}

// hash returns the URL's fragment.
func (p *tab) hash() (hash string) {
	p.t.Helper()
	p.eval(`location.hash.slice(1)`, &hash)
	return hash
}
