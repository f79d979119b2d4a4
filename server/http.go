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
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/cli/shown"
	"github.com/seed-5394e6b1/snowflake/internal/cli/texts"
)

// reply is an answer to a plain HTTP request: an object for JSON, and a text for clients that
// prefer text/plain.
type reply struct {
	text []byte
	json any
}

// answer writes the reply in the form that the client prefers. It refuses unknown parameters of the
// query.
type answer struct {
	to         func(r *http.Request) (reply, error)
	parameters []string
}

func (a answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := reply{}, a.check(r)
	if err == nil {
		out, err = a.to(r)
	}
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		writeRefusal(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has over %d bytes", maxBody))
	case err != nil:
		writeError(w, r, err)
	default:
		write(w, r, http.StatusOK, out)
	}
}

// check returns an error if a parameter of the query would be ignored.
func (a answer) check(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return wrong("query", "it cannot be read: %%, & and ; in a value are written %%25, %%26 and %%3B")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case !slices.Contains(a.parameters, name):
			return &fieldError{field: name[:min(len(name), 32)], err: errors.New(cmp.Or(a.hint(name), "there is no such parameter"))}
		case len(query[name]) > 1:
			return wrong(name, "it is there %d times", len(query[name]))
		}
	}
	return nil
}

// hint returns what the client most likely meant.
func (a answer) hint(name string) string {
	if name == "n" {
		return "this path has no n: GET /ids?n=3 returns three IDs"
	}
	return ""
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
	if wantsText(r) {
		h["Content-Type"] = isText
		w.WriteHeader(status)
		_, _ = w.Write(out.text)
		return
	}
	h["Content-Type"] = isJSON
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out.json) // fails only if the client is gone
}

// problem is the form of all errors in JSON.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
}

func (p problem) write(w http.ResponseWriter, r *http.Request, status int) {
	write(w, r, status, reply{[]byte(p.Message + "\n"), p})
}

// writeError writes an error, with the field that it is about.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	e := fail(r.Context(), err)
	maps.Copy(w.Header(), e.Meta())
	body := problem{Code: e.Code().String(), Message: e.Message()}
	var f *fieldError
	if errors.As(err, &f) {
		body.Field = f.field
	}
	body.write(w, r, cmp.Or(statuses[e.Code()], http.StatusInternalServerError))
}

// refusals has the codes of the statuses with which a request is refused as HTTP.
var refusals = map[int]connect.Code{
	http.StatusNotFound:              connect.CodeNotFound,
	http.StatusMethodNotAllowed:      connect.CodeUnimplemented,
	http.StatusRequestEntityTooLarge: connect.CodeInvalidArgument,
	http.StatusUnsupportedMediaType:  connect.CodeInvalidArgument,
	http.StatusMisdirectedRequest:    connect.CodePermissionDenied,
}

// writeRefusal writes an error that net/http would write as a text.
func writeRefusal(w http.ResponseWriter, r *http.Request, status int, message string) {
	problem{Code: refusals[status].String(), Message: message}.write(w, r, status)
}

func (s *Server) getID(r *http.Request) (reply, error) {
	id, err := s.next(r.Context())
	if err != nil {
		return reply{}, err
	}
	if wantsText(r) {
		return reply{text: lines([]snowflake.ID{id})}, nil
	}
	return reply{json: struct {
		ID snowflake.ID `json:"id"`
	}{id}}, nil
}

func (s *Server) getIDs(r *http.Request) (reply, error) {
	text := r.URL.Query().Get("n")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text { // no + and no leading zeros, as in an ID
		return reply{}, wrong("n", "%.32q is not a whole number such as 100: say how many IDs, as in /ids?n=100", text)
	}
	ids, err := s.issue(r.Context(), n)
	if err != nil {
		return reply{}, err
	}
	if wantsText(r) {
		return reply{text: lines(ids)}, nil
	}
	return reply{json: struct {
		IDs []snowflake.ID `json:"ids"`
	}{ids}}, nil
}

// lines returns the IDs, one a line.
func lines(ids []snowflake.ID) []byte {
	b := make([]byte, 0, len(ids)*len("9223372036854775807\n"))
	for _, id := range ids {
		b, _ = id.AppendText(b) // fails only for a negative ID
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
		return reply{}, &fieldError{field: "body", err: err}
	}
	words := strings.Fields(string(body))
	if len(words) == 0 {
		return reply{}, wrong("body", "it has no IDs: write one a line")
	}
	readings, err := texts.IDs(words)
	if err != nil {
		return reply{}, &fieldError{field: "body", err: err}
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
