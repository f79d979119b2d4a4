// Package page is the web page on which an ID explains itself: its bits, its time,
// and the known layouts that it fits. It also designs layouts.
//
// The page is plain HTML, CSS and JavaScript. It asks for nothing but its own
// files and, when a button is pressed, ids?n=10 beside it. It also works if it is
// opened as a file: index.html. Its state is in the URL's fragment, which browsers
// do not send.
//
// snowflake.js and layouts.js are derived from js/snowflake.js and from the
// library's table of known layouts: go generate ./server/page.
package page

//go:generate go test -run TestDerivedFilesAreInStep -update .

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"path"
	"time"
)

//go:embed index.html page.css icon.svg snowflake.js layouts.js identify.js design.js page.js theme.js
var files embed.FS

// policy lets the page load its own files and call its own origin, and nothing
// else: no inline script or style, no frame, no form, no other host.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the page at / and the page's files beside it. Any other path
// gives 404, and a method other than GET and HEAD 405. A browser asks each time
// if a file has changed; if not, the answer is 304, by the file's ETag.
func Handler() http.Handler {
	mux := http.NewServeMux()
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the files are in the program
	}
	for _, e := range entries {
		pattern := "GET /" + e.Name()
		if e.Name() == "index.html" {
			pattern = "GET /{$}"
		}
		mux.Handle(pattern, file(e.Name()))
	}
	return mux
}

// file serves one of the files.
func file(name string) http.Handler {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
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

// contentTypes are fixed, so that no table of the machine decides.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}
