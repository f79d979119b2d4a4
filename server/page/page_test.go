package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/layouts"
)

func get(method, target string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Header = header
	w := httptest.NewRecorder()
	Handler(layouts.Twitter(), nil).ServeHTTP(w, r)
	return w
}

func TestPageAndItsFilesAreServed(t *testing.T) {
	page := get("GET", "/", nil)
	require.Equal(t, http.StatusOK, page.Code)
	require.Equal(t, "text/html; charset=utf-8", page.Header().Get("Content-Type"))
	references := regexp.MustCompile(`<(?:link|script) [^>]*(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1)
	require.Len(t, references, 4)
	for _, r := range references {
		w := get("GET", "/"+r[1], nil)
		require.Equal(t, http.StatusOK, w.Code, r[1])
		assert.NotEmpty(t, w.Header().Get("Content-Type"), r[1])
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), r[1])
		assert.NotEmpty(t, w.Body.Bytes(), r[1])
	}
}

func TestPageKnowsWhetherTheServerAsksForTokens(t *testing.T) {
	for _, needs := range []bool{false, true} {
		w := httptest.NewRecorder()
		Handler(layouts.Twitter(), &Options{NeedsToken: needs}).ServeHTTP(w, httptest.NewRequest("GET", "/server.js", nil))
		assert.Contains(t, w.Body.String(), fmt.Sprintf("needsToken = %v;", needs))
	}
}

func TestNothingElseIsServed(t *testing.T) {
	for _, path := range []string{"/index.html", "/page.go", "/nothing", "/ids", "/..%2fpage.go", "//"} {
		assert.NotEqual(t, http.StatusOK, get("GET", path, nil).Code, path)
	}
	assert.Equal(t, http.StatusMethodNotAllowed, get("POST", "/", nil).Code)
	assert.Empty(t, get("HEAD", "/", nil).Body.String())
}

func TestPolicyAllowsNothingButOwnFiles(t *testing.T) {
	policy := get("GET", "/", nil).Header().Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	for _, loose := range []string{"unsafe", "*", "http", "data:", "blob:"} {
		assert.NotContains(t, policy, loose)
	}
	page := get("GET", "/", nil).Body.String()
	assert.NotRegexp(t, `<script>|<style|style=|\son\w+=|javascript:`, page)
}

func TestUnchangedFileIsNotSentAgain(t *testing.T) {
	first := get("GET", "/page.js", nil)
	etag := first.Header().Get("ETag")
	require.Regexp(t, `^"[0-9a-f]{16,}"$`, etag)
	again := get("GET", "/page.js", http.Header{"If-None-Match": {etag}})
	assert.Equal(t, http.StatusNotModified, again.Code)
	assert.Empty(t, again.Body.String())
	assert.NotEqual(t, etag, get("GET", "/page.css", nil).Header().Get("ETag"))
	assert.Equal(t, http.StatusOK, get("GET", "/page.css", http.Header{"If-None-Match": {etag}}).Code)
}

// The page has no URL of another host, except a namespace, an address that is shown as text, and
// the link to the documentation, which are not requests.
func TestFilesNameNoOtherHost(t *testing.T) {
	for _, name := range []string{
		"", "page.css", "icon.svg", "theme.js", "page.js", "programs.js", "identify.js", "design.js",
		"snowflake.js", "server.js",
	} {
		w := get("GET", "/"+name, nil)
		require.Equal(t, http.StatusOK, w.Code, name)
		for _, url := range regexp.MustCompile(`(?:https?:)?//[\w.-]+\.\w[^\s"'<]*`).FindAllString(w.Body.String(), -1) {
			assert.True(t, strings.HasPrefix(url, "http://www.w3.org/") || strings.HasPrefix(url, "http://127.0.0.1") ||
				strings.HasPrefix(url, "https://github.com/seed-5394e6b1/snowflake"), "%s: %s", name, url)
		}
	}
}
