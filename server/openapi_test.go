package server_test

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/server"
)

// The parts of OpenAPI that the description uses.
type openAPI struct {
	Paths      map[string]map[string]operation
	Components struct {
		Responses map[string]response
		Schemas   map[string]schema
	}
}

type operation struct {
	Parameters []struct {
		Name, In string
		Required bool
		Example  any
	}
	RequestBody struct {
		Content map[string]struct{ Example string }
	}
	Responses map[string]response
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

// Every path of the description exists, and answers as the description says: its examples, and
// each request without a parameter that is required.
func TestAnswersMatchOpenAPI(t *testing.T) {
	_, base := serve(t, generator(t), &server.Options{Watermark: heldBack})
	_, text := get(t, base+"/openapi.json")
	var doc openAPI
	require.NoError(t, json.Unmarshal([]byte(text), &doc))
	assert.Len(t, doc.Paths, 5, "%d paths", len(doc.Paths))
	for path, methods := range doc.Paths {
		for method, op := range methods {
			for _, accept := range []string{"application/json", "text/plain"} {
				if method == "post" {
					for which, body := range map[string]string{"200": op.RequestBody.Content["text/plain"].Example, "default": ""} {
						resp, text := post(t, base+path, body, "Accept", accept)
						doc.says(t, op, which, path, accept, resp, text)
					}
					continue
				}
				doc.holds(t, op, "200", base+fill(path, op, true), accept)
				if full, least := fill(path, op, true), fill(path, op, false); full != least && !strings.Contains(path, "{") {
					doc.holds(t, op, "default", base+least, accept)
				}
				if strings.Contains(path, "{id}") {
					doc.holds(t, op, "default", base+strings.ReplaceAll(path, "{id}", "!"), accept)
				}
			}
		}
	}
}

// fill puts the examples into a path.
func fill(path string, op operation, all bool) string {
	query := url.Values{}
	for _, p := range op.Parameters {
		b, _ := json.Marshal(p.Example)
		value := strings.Trim(string(b), `"`)
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", value)
		case all:
			query.Set(p.Name, value)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

func (doc *openAPI) holds(t *testing.T, op operation, which, url, accept string) {
	t.Helper()
	resp, body := get(t, url, "Accept", accept)
	doc.says(t, op, which, url, accept, resp, body)
}

// says holds an answer against its description.
func (doc *openAPI) says(t *testing.T, op operation, which, url, accept string, resp *http.Response, body string) {
	t.Helper()
	assert.Equal(t, (which == "200"), (resp.StatusCode == http.StatusOK), "%s: %v", url, resp.Status)
	said, ok := op.Responses[which]
	if said.Ref != "" {
		said, ok = doc.Components.Responses[strings.TrimPrefix(said.Ref, "#/components/responses/")]
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	content, has := said.Content[kind]
	require.True(t, ok, "%s: %s is not described as %s", url, kind, which)
	require.True(t, has, "%s: %s is not described as %s", url, kind, which)
	require.Equal(t, accept, kind, "%s: %s is not described as %s", url, kind, which)
	if kind == "application/json" {
		var v any
		require.NoError(t, json.Unmarshal([]byte(body), &v), url)
		doc.fits(t, url, content.Schema, v)
	}
}

// fits holds a value against its schema, which names every property.
func (doc *openAPI) fits(t *testing.T, where string, s schema, v any) {
	t.Helper()
	if s.Ref != "" {
		s = doc.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	switch v := v.(type) {
	case map[string]any:
		assert.Equal(t, "object", s.Type, "%s is an object, not %q", where, s.Type)
		for name, value := range v {
			_, ok := s.Properties[name]
			assert.True(t, ok, "%s.%s is not described", where, name)
			doc.fits(t, where+"."+name, s.Properties[name], value)
		}
		for _, name := range s.Required {
			_, ok := v[name]
			assert.True(t, ok, "%s.%s is missing", where, name)
		}
	case []any:
		require.Equal(t, "array", s.Type, "%s is an array of %d, not %q", where, len(v), s.Type)
		assert.NotEmpty(t, v, "%s is an array of %d, not %q", where, len(v), s.Type)
		for _, item := range v {
			doc.fits(t, where+"[]", *s.Items, item)
		}
	case string:
		require.Equal(t, "string", s.Type, "%s is %q, not %q %s", where, v, s.Type, s.Pattern)
		assert.True(t, regexp.MustCompile(s.Pattern).MatchString(v), "%s is %q, not %q %s", where, v, s.Type, s.Pattern)
	case float64:
		assert.Contains(t, []string{"integer", "number"}, s.Type, "%s is a number, not %q", where, s.Type)
	}
}
