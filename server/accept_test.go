package server

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A client gets its preference, by RFC 9110: the most specific range counts, case does not matter,
// and q=0 refuses. Without a preference the answer is JSON.
func TestAcceptChoosesTheForm(t *testing.T) {
	for accept, want := range map[string]string{
		"": "json", "*/*": "json", "application/json": "json", "APPLICATION/JSON": "json",
		"application/*": "json", "text/html": "json", "nonsense": "json",
		// Browsers and axios send these.
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": "json", "application/json, text/plain, */*": "json",
		"text/plain;q=0.5, application/json;q=0.6":            "json",
		"text/*;q=0.9, text/plain;q=0.1, application/*;q=0.2": "json", "text/plain;q=0": "json",
		"*/*;q=0": "json", "text/plain;q=2, application/json;q=0.1": "json",
		`x/y;a="text/plain,b", application/json`: "json", "*/*, text/html;q=0.1": "json",
		"text/plain": "text", "Text/Plain; charset=utf-8": "text", "text/*": "text",
		"text/plain, application/json;q=0.5, text/plain;q=0.1": "text", // a range occurs twice
		"text/html, text/plain;q=0.1":                          "text", "application/json;q=0": "text",
		"application/json;q=0, */*": "text", "application/*;q=0.1, */*;q=0.2": "text", "text/plain, application/json;q=0.9": "text",
		`text/html;a="x, application/json", text/plain`: "text", "application/json ; Q=0.5 , text/plain": "text",
	} {
		header := http.Header{"Accept": {accept}}
		if accept == "" {
			header = nil
		}
		assert.Equal(t, want == "text", wantsText(&http.Request{Header: header}), accept)
	}
	two := http.Header{"Accept": {"application/json;q=0.1", "text/plain"}} // two lines of one header
	assert.True(t, wantsText(&http.Request{Header: two}))
}
