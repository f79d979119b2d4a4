package server

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/shown"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

// reply is an answer of the HTTP half: a text for people and shells, and an object for programs.
type reply struct {
	text []byte
	json any
}

// answer writes the reply in the form that the client accepts.
type answer func(r *http.Request) (reply, error)

func (a answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := a(r)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		http.Error(w, fmt.Sprintf("the request has over %d bytes", maxBody), http.StatusRequestEntityTooLarge)
	case err != nil:
		writeError(w, r, err)
	default:
		write(w, r, http.StatusOK, out)
	}
}

// The values of headers, which all answers share.
var (
	varies  = []string{"Accept"}
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"}
	isJSON  = []string{"application/json"}
	isText  = []string{"text/plain; charset=utf-8"}
)

func write(w http.ResponseWriter, r *http.Request, status int, out reply) {
	h := w.Header()
	h["Vary"], h["Cache-Control"], h["X-Content-Type-Options"] = varies, noStore, noSniff
	if wantsJSON(r) {
		h["Content-Type"] = isJSON
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out.json) // it fails if the client is gone
		return
	}
	h["Content-Type"] = isText
	w.WriteHeader(status)
	_, _ = w.Write(out.text)
}

// wantsJSON is whether the client names JSON among what it accepts.
func wantsJSON(r *http.Request) bool {
	return strings.Contains(strings.Join(r.Header["Accept"], ","), "application/json")
}

// writeError writes an error, with the field that it is about.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	e := fail(r.Context(), err)
	maps.Copy(w.Header(), e.Meta())
	body := struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Field   string `json:"field,omitempty"`
	}{Code: e.Code().String(), Message: e.Message()}
	if f, ok := errors.AsType[*fieldError](err); ok {
		body.Field = f.field
	}
	write(w, r, cmp.Or(statuses[e.Code()], http.StatusInternalServerError), reply{[]byte(body.Message + "\n"), body})
}

func (s *Server) getID(r *http.Request) (reply, error) {
	id, err := s.next(r.Context())
	if err != nil {
		return reply{}, err
	}
	if wantsJSON(r) {
		return reply{json: struct {
			ID snowflake.ID `json:"id"`
		}{id}}, nil
	}
	return reply{text: lines([]snowflake.ID{id})}, nil
}

func (s *Server) getIDs(r *http.Request) (reply, error) {
	text := r.URL.Query().Get("n")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return reply{}, wrong("n", "%.32q is not a whole number: say how many IDs, as in /ids?n=100", text)
	}
	ids, err := s.issue(r.Context(), n)
	if err != nil {
		return reply{}, err
	}
	if wantsJSON(r) {
		return reply{json: struct {
			IDs []snowflake.ID `json:"ids"`
		}{ids}}, nil
	}
	return reply{text: lines(ids)}, nil
}

// lines returns the IDs, one a line.
func lines(ids []snowflake.ID) []byte {
	b := make([]byte, 0, len(ids)*len("9223372036854775807\n"))
	for _, id := range ids {
		b, _ = id.AppendText(b) // it fails for a negative ID
		b = append(b, '\n')
	}
	return b
}

func (s *Server) getDecode(r *http.Request) (reply, error) {
	d, err := s.read("id", r.PathValue("id"), r.URL.Query().Get("layout"))
	if err != nil {
		return reply{}, err
	}
	text := fmt.Appendf(nil, "%v %v\n", d.id, d.parts)
	if d.form != "decimal" {
		text = fmt.Appendf(nil, "%v %v form=%q\n", d.id, d.parts, d.form)
	}
	return reply{text, shown.Decode(d.id, d.form, d.layout)}, nil
}

// identify guesses the layouts of the IDs in the body, one a line.
func (s *Server) identify(r *http.Request) (reply, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return reply{}, &fieldError{"body", err}
	}
	words := strings.Fields(string(body))
	if len(words) == 0 {
		return reply{}, wrong("body", "it has no IDs: write one a line")
	}
	readings, err := texts.IDs(words)
	if err != nil {
		return reply{}, &fieldError{"body", err}
	}
	found := shown.Identify(readings, time.Now())
	return reply{[]byte(found.Text(5)), found}, nil
}

//go:embed openapi.json
var openAPI []byte

func getOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
}
