//go:build go1.25

package server_test

import (
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/server"
)

// openAPI is the part of the description that the test reads.
type openAPI struct {
	Paths      map[string]map[string]struct{ Responses map[string]response }
	Components struct {
		Responses map[string]response
		Schemas   map[string]schema
	}
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]struct{ Schema schema }
}

type schema struct {
	Ref        string `json:"$ref"`
	Type       string
	Pattern    string
	Required   []string
	Properties map[string]schema
	Items      *schema
}

// Every path of the description exists, and its answers fit the description.
func TestAnswersMatchOpenAPI(t *testing.T) {
	_, base := serve(t, generator(t), &server.Options{Watermark: heldBack})
	_, text := get(t, http.DefaultClient, base+"/openapi.json")
	var doc openAPI
	require.NoError(t, json.Unmarshal([]byte(text), &doc))
	var paths []string
	for _, q := range []struct{ path, method, url, body, says string }{
		{"/decode/{id}", "get", "/decode/117469438034313216?layout=twitter", "", "200"},
		{"/decode/{id}", "get", "/decode/!", "", "default"},
		{"/id", "get", "/id", "", "200"},
		{"/identify", "post", "/identify", "1541815603606036480\n", "200"},
		{"/identify", "post", "/identify", "", "default"},
		{"/ids", "get", "/ids?n=100", "", "200"},
		{"/ids", "get", "/ids", "", "default"},
		{"/watermark", "get", "/watermark", "", "200"},
	} {
		paths = append(paths, q.path)
		described := doc.Paths[q.path][q.method].Responses[q.says]
		if described.Ref != "" {
			described = doc.Components.Responses[strings.TrimPrefix(described.Ref, "#/components/responses/")]
		}
		for _, accept := range []string{"application/json", "text/plain"} {
			resp, body := request(t, http.DefaultClient, strings.ToUpper(q.method), base+q.url, strings.NewReader(q.body), "Accept", accept)
			assert.Equal(t, q.says == "200", resp.StatusCode == http.StatusOK, "%s: %v", q.url, resp.Status)
			kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
			require.Equal(t, accept, kind, q.url)
			content, ok := described.Content[kind]
			require.True(t, ok, "%s: %s is not described as %s", q.url, kind, q.says)
			if kind == "application/json" {
				var v any
				require.NoError(t, json.Unmarshal([]byte(body), &v), q.url)
				doc.fits(t, q.url, content.Schema, v)
			}
		}
	}
	assert.Equal(t, slices.Sorted(maps.Keys(doc.Paths)), slices.Compact(paths))
}

// fits checks a value against its schema, which must have every property.
func (doc *openAPI) fits(t *testing.T, where string, s schema, v any) {
	t.Helper()
	if s.Ref != "" {
		s = doc.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	switch v := v.(type) {
	case map[string]any:
		require.Equal(t, "object", s.Type, where)
		for name, value := range v {
			require.Contains(t, s.Properties, name, where)
			doc.fits(t, where+"."+name, s.Properties[name], value)
		}
		for _, name := range s.Required {
			assert.Contains(t, v, name, where)
		}
	case []any:
		require.Equal(t, "array", s.Type, where)
		require.NotEmpty(t, v, where)
		for _, item := range v {
			doc.fits(t, where+"[]", *s.Items, item)
		}
	case string:
		require.Equal(t, "string", s.Type, where)
		assert.Regexp(t, regexp.MustCompile(s.Pattern), v, where)
	case float64:
		assert.Contains(t, []string{"integer", "number"}, s.Type, where)
	}
}
