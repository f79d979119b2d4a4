package layouts

import (
	"fmt"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
)

// Form is a way to write IDs.
type Form struct {
	Name  string
	parse func(string) (snowflake.ID, error)
}

// forms are tried in this order.
var forms = []Form{
	{"decimal", snowflake.ParseID},
	{"base 32", snowflake.ParseBase32},
	{"base 62", snowflake.ParseBase62},
	{"base 58", snowflake.ParseBase58},
	{"base 32, sortable", parseSortable},
}

// Reading is the IDs that texts are in one form.
type Reading struct {
	Form string
	IDs  []snowflake.ID
}

// Read returns the IDs of the texts, in each form that fits all texts. If no form
// does, the error names the text that stopped the form which got furthest.
func Read(texts []string) ([]Reading, error) {
	var all []Reading
	at, cause := -1, error(nil)
	for _, f := range forms {
		ids, n, err := f.read(texts)
		if err == nil {
			all = append(all, Reading{f.Name, ids})
		} else if n > at {
			at, cause = n, err
		}
	}
	if len(all) > 0 {
		if all[0].Form == "decimal" {
			all = all[:1] // the texts are digits only, so they fit base 58 or 62 by accident
		}
		return all, nil
	}
	if other := Foreign(texts[at]); other != "" {
		return nil, fmt.Errorf("%q is %s, which has more than 64 bits", texts[at], other)
	}
	return nil, cause
}

func (f Form) read(texts []string) (ids []snowflake.ID, n int, err error) {
	for i, text := range texts {
		id, err := f.parse(text)
		if err != nil {
			return nil, i, err
		}
		ids = append(ids, id)
	}
	return ids, len(texts), nil
}

// sortable are the digits of the AT Protocol's TIDs.
const sortable = "234567abcdefghijklmnopqrstuvwxyz"

// parseSortable reads a TID: a digit of 4 bits, and 12 digits of 5 bits.
func parseSortable(s string) (snowflake.ID, error) {
	refused := fmt.Errorf("%w: %.32q is not 13 of the characters %s", snowflake.ErrInvalidID, s, sortable)
	if len(s) != 13 {
		return 0, refused
	}
	var v uint64
	for i := range len(s) {
		d := strings.IndexByte(sortable, s[i])
		if d < 0 || i == 0 && d > 7 {
			return 0, refused
		}
		v = v<<5 | uint64(d)
	}
	return snowflake.ID(v), nil
}

// Foreign returns what a text is if it is an ID of another kind, or else "".
func Foreign(s string) string {
	switch {
	case len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' &&
		only(strings.ReplaceAll(s, "-", ""), "0123456789abcdefABCDEF"):
		return "a UUID, version " + s[14:15]
	case len(s) == 26 && only(strings.ToUpper(s), "0123456789ABCDEFGHJKMNPQRSTVWXYZ"):
		return "a ULID"
	case len(s) == 16 && only(s, "23456789abcdefghijklmnopqrstuvwx"): // muyo/sno: internal/encoding.go
		return "an ID of muyo/sno, of 80 bits"
	case len(s) == 24 && only(s, "0123456789abcdef"):
		return "an ObjectID of MongoDB, of 96 bits"
	case len(s) == 20 && only(s, "0123456789abcdefghijklmnopqrstuv"):
		return "an ID of rs/xid, of 96 bits"
	}
	return ""
}

func only(s, digits string) bool { return strings.Trim(s, digits) == "" }
