package recipes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/opaque"
)

// Line is the input of the handlers: the order from the path, after from the query, and the rest
// from the body.
type Line struct {
	Order OrderID      `json:"-" uri:"order" param:"order"`
	After snowflake.ID `json:"-" form:"after" query:"after"`
	Item  snowflake.ID `json:"item"`
}

// answer is the output of the handlers.
type answer struct {
	Order OrderID      `json:"order"`
	After snowflake.ID `json:"after"`
	Item  snowflake.ID `json:"item"`
}

func netHTTP() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{order}/lines", postLine)
	return mux
}

func chiHTTP() http.Handler {
	router := chi.NewRouter()
	router.Post("/orders/{order}/lines", postLine)
	return router
}

func postLine(w http.ResponseWriter, r *http.Request) {
	var line Line
	err := errors.Join(
		line.Order.UnmarshalText([]byte(r.PathValue("order"))),
		queryID(r, "after", &line.After),
		json.NewDecoder(r.Body).Decode(&line))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(answer(line))
}

// queryID reads an optional parameter.
func queryID(r *http.Request, name string, id *snowflake.ID) error {
	if !r.URL.Query().Has(name) {
		return nil
	}
	if err := id.UnmarshalText([]byte(r.URL.Query().Get(name))); err != nil {
		return fmt.Errorf("parameter %s: %w", name, err)
	}
	return nil
}

func echoHTTP() http.Handler {
	e := echo.New()
	e.POST("/orders/:order/lines", func(c echo.Context) error {
		var line Line
		b := new(echo.DefaultBinder)
		err := errors.Join(b.BindPathParams(c, &line), b.BindQueryParams(c, &line), b.BindBody(c, &line))
		if err != nil {
			return echo.NewHTTPError(http.StatusBadRequest, err.Error())
		}
		return c.JSON(http.StatusOK, answer(line))
	})
	return e
}

var frameworks = map[string]http.Handler{"net/http": netHTTP(), "chi": chiHTTP(), "echo": echoHTTP()}

func TestHTTP(t *testing.T) {
	const goodPath, goodBody = "/orders/order_038ANTKF00000/lines?after=7", `{"item":"117469438034313216"}`
	refused := map[string][2]string{
		"the prefix of another type":   {"/orders/user_038ANTKF00000/lines", goodBody},
		"a number for a typed ID":      {"/orders/117469438034313216/lines", goodBody},
		"small letters":                {"/orders/order_038antkf00000/lines", goodBody},
		"a sign":                       {goodPath[:len(goodPath)-1] + "-7", goodBody},
		"a leading zero":               {goodPath[:len(goodPath)-1] + "07", goodBody},
		"a plus":                       {goodPath[:len(goodPath)-1] + "%2B7", goodBody},
		"an empty parameter":           {goodPath[:len(goodPath)-1], goodBody},
		"over 63 bits":                 {goodPath[:len(goodPath)-1] + "9223372036854775808", goodBody},
		"a fraction in JSON":           {goodPath, `{"item":1.5}`},
		"a negative number in JSON":    {goodPath, `{"item":-1}`},
		"another kind of ID in JSON":   {goodPath, `{"item":"order_038ANTKF00000"}`},
		"a number that JSON rounded":   {goodPath, `{"item":1.1746943803431322e+17}`},
		"an empty text in JSON":        {goodPath, `{"item":""}`},
		"an escaped character in JSON": {goodPath, `{"item":"\u0037"}`},
	}
	for name, handler := range frameworks {
		t.Run(name, func(t *testing.T) {
			send := func(path, body string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				return w
			}
			w := send(goodPath, goodBody)
			assert.Equal(t, http.StatusOK, w.Code, w.Body)
			assert.JSONEq(t, `{"order":"order_038ANTKF00000","after":"7","item":"117469438034313216"}`, w.Body.String())
			w = send("/orders/order_038ANTKF00000/lines", goodBody)
			assert.Equal(t, http.StatusOK, w.Code, w.Body)
			for why, r := range refused {
				w := send(r[0], r[1])
				assert.Equal(t, http.StatusBadRequest, w.Code, "%s: %s", why, w.Body)
			}
		})
	}
}

// Who must not learn the ID sees the text of a Codec, in the path and in JSON.
func TestOpaqueHTTP(t *testing.T) {
	orders, err := opaque.New([]byte("32 bytes, random in real life..."), "order")
	assert.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{order}", func(w http.ResponseWriter, r *http.Request) {
		id, err := orders.Decode(r.PathValue("order"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		// Here, check that this user may see order id.
		_ = json.NewEncoder(w).Encode(map[string]string{"id": orders.Encode(id)})
	})
	for path, want := range map[string]int{
		"/orders/" + orders.Encode(7): http.StatusOK, "/orders/7": http.StatusNotFound, "/orders/0000000000000000000000": http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, want, w.Code, path)
		if want == http.StatusOK {
			assert.JSONEq(t, `{"id":"`+orders.Encode(7)+`"}`, w.Body.String())
		}
	}
}
