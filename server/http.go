package server

import (
	_ "embed"
	"encoding/json"
	"errors"
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
	"github.com/seed-5394e6b1/snowflake/internal/answers"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

// answer is the answer to an HTTP request. It is written as JSON or, if the client prefers it, as
// text.
type answer interface{ text() []byte }

// get returns a handler that writes the results of to, and refuses unknown parameters of the query.
func get(to func(r *http.Request) (answer, error), parameters ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := check(r.URL.RawQuery, parameters)
		var a answer
		if err == nil {
			a, err = to(r)
		}
		if err != nil {
			refuse(w, r, err)
			return
		}
		write(w, r, http.StatusOK, a)
	})
}

// check returns an error if a parameter of the query is unknown or repeated.
func check(rawQuery string, parameters []string) error {
	if rawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return wrong("query", "it cannot be read: %%, & and ; in a value are written %%25, %%26 and %%3B")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case slices.Contains(parameters, name):
			if len(query[name]) > 1 {
				return wrong(name, "it is there %d times", len(query[name]))
			}
		case name == "n":
			return wrong(name, "this path has no n: GET /ids?n=3 returns three IDs")
		default:
			return wrong(name[:min(len(name), 32)], "there is no such parameter")
		}
	}
	return nil
}

// The values of headers, shared by all answers.
var (
	varies  = []string{"Accept"}
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"}
	isJSON  = []string{"application/json"}
	isText  = []string{"text/plain; charset=utf-8"}
)

// write writes an answer in the form that the client prefers.
func write(w http.ResponseWriter, r *http.Request, status int, a answer) {
	h := w.Header()
	h["Vary"], h["Cache-Control"], h["X-Content-Type-Options"] = varies, noStore, noSniff
	if wantsText(r) {
		h["Content-Type"] = isText
		w.WriteHeader(status)
		_, _ = w.Write(a.text())
		return
	}
	h["Content-Type"] = isJSON
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a) // fails only if the client is gone
}

// one and many are answers with new IDs.
type one struct {
	ID snowflake.ID `json:"id"`
}

func (a one) text() []byte { return lines(a.ID) }

type many struct {
	IDs []snowflake.ID `json:"ids"`
}

func (a many) text() []byte { return lines(a.IDs...) }

// lines returns the IDs, one a line.
func lines(ids ...snowflake.ID) []byte {
	b := make([]byte, 0, len(ids)*len("9223372036854775807\n"))
	for _, id := range ids {
		b, _ = id.AppendText(b) // fails only for a negative ID
		b = append(b, '\n')
	}
	return b
}

func (s *Server) getID(r *http.Request) (answer, error) {
	id, err := s.next(r.Context())
	return one{id}, err
}

func (s *Server) getIDs(r *http.Request) (answer, error) {
	text := r.URL.Query().Get("n")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text { // no + and no leading zeros, as in an ID
		return nil, wrong("n", "%.32q is not a whole number such as 100: say how many IDs, as in /ids?n=100", text)
	}
	ids, err := s.issue(r.Context(), n)
	return many{ids}, err
}

func (s *Server) getDecode(r *http.Request) (answer, error) {
	return s.read("id", r.PathValue("id"), r.URL.Query().Get("layout"))
}

// guesses has the layouts that IDs most likely have.
type guesses struct{ answers.Guesses }

func (g guesses) text() []byte { return []byte(g.Text(5)) }

// identify guesses the layouts of the IDs in the body, one a line.
func (s *Server) identify(r *http.Request) (answer, error) {
	body, err := io.ReadAll(r.Body)
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, refused(http.StatusRequestEntityTooLarge, connect.CodeInvalidArgument, "the request has over %d bytes", maxBody)
	}
	if err != nil {
		return nil, refused(http.StatusRequestTimeout, connect.CodeDeadlineExceeded, "%v", slowError{})
	}
	// Identifying IDs takes far longer than issuing them, but each client may send one request.
	if err := of(r.Context()).room.take(min(int64(len(body))/1024, s.load.max/8, s.load.share/8)); err != nil {
		return nil, err
	}
	words := strings.Fields(string(body))
	if len(words) == 0 {
		return nil, wrong("body", "it has no IDs: write one a line")
	}
	readings, err := texts.IDs(words)
	if err != nil {
		return nil, invalid("body", err)
	}
	return guesses{answers.Identify(readings, time.Now())}, nil
}

//go:embed openapi.json
var openAPI []byte

func getOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = isJSON
	_, _ = w.Write(openAPI)
}
