// Package page is the web page that explains an ID: its bits, its time, and the known layouts that
// it fits. The page also helps to design layouts.
//
// It is plain HTML, CSS and JavaScript. It requests only its own files, identify (for the layouts
// of IDs, and for forms of IDs that it does not know) and, if a button is pressed, ids?n=10. Its
// state is in the URL's fragment, which browsers do not send.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/js"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

//go:embed index.html page.css icon.svg identify.js design.js programs.js page.js theme.js
var files embed.FS

// policy is the Content-Security-Policy: only the page's own files and origin are allowed, without
// inline scripts and styles, frames, forms and other hosts.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Options holds the settings of [Handler]. Nil and the zero value mean the defaults.
type Options struct {
	// NeedsToken is set if the server needs bearer tokens. The page, which has none, then requests
	// only its own files.
	NeedsToken bool
}

// Handler returns a handler of the page, at /, and its files, for a server that issues IDs of the
// layout l. The status for other paths is 404, and for methods other than GET and HEAD 405. Files
// have an ETag, and browsers revalidate them each time.
func Handler(l snowflake.Layout, opts *Options) http.Handler {
	needsToken := opts != nil && opts.NeedsToken
	mux := http.NewServeMux()
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the files are in the program
	}
	for _, e := range entries {
		content, err := files.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		pattern := "GET /" + e.Name()
		if e.Name() == "index.html" {
			pattern = "GET /{$}"
		}
		mux.Handle(pattern, file(e.Name(), content))
	}
	mux.Handle("GET /server.js", file("server.js", serverScript(l, needsToken)))
	mux.Handle("GET /snowflake.js", file("snowflake.js", []byte(js.Source())))
	return mux
}

// serverScript returns a script with what the page knows about the server, and with the library's
// table of layouts.
func serverScript(l snowflake.Layout, needsToken bool) []byte {
	b := fmt.Appendf(nil, "export const needsToken = %v;\nexport const serverLayout = %s;\nexport const knownLayouts = [\n",
		needsToken, script(l))
	for _, k := range layouts.All() {
		also, _ := json.Marshal(append([]string{}, k.Also...)) // texts have JSON
		b = fmt.Appendf(b, "{ name: %q, also: %s, about: %q, layout: %s },\n", k.Name, also, k.About, script(k.Layout))
	}
	return append(b, "];\n"...)
}

// script returns a layout in JavaScript.
func script(l snowflake.Layout) string {
	return fmt.Sprintf("{ epoch: %dn, unit: %dn, timeBits: %d, clockSeqBits: %d, datacenterBits: %d, workerBits: %d, sequenceBits: %d, workerLast: %v }",
		l.Epoch, l.Unit, l.TimeBits, l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits, l.WorkerLast)
}

// file returns a handler of a file.
func file(name string, content []byte) http.Handler {
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256(content))[:18] + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentTypes[path.Ext(name)])
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", etag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	})
}

// contentTypes replaces the operating system's table.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}
