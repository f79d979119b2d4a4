package texts

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
)

// form is a way to write IDs.
type form struct {
	name  string
	parse func(string) (snowflake.ID, error)
}

// forms are tried in this order.
var forms = []form{
	{"decimal", snowflake.ParseID},
	{"base 32", snowflake.ParseBase32},
	{"base 62", snowflake.ParseBase62},
	{"base 58", snowflake.ParseBase58},
	{"base 32, sortable", parseSortable},
	{"URL", parseURL},
}

// Reading is the IDs that texts are in one form.
type Reading struct {
	Form string         `json:"form"`
	IDs  []snowflake.ID `json:"ids"`
	Host string         `json:"-"` // of the URLs, if they have the same host
}

// IDs returns the IDs of the texts, in each form that fits all texts. If no form
// does, the error names the text that stopped the form which got furthest.
func IDs(texts []string) ([]Reading, error) {
	var all []Reading
	at, cause := -1, error(nil)
	for _, f := range forms {
		ids, n, err := f.read(texts)
		if err == nil {
			all = append(all, Reading{f.name, ids, commonHost(texts)})
		} else if n > at || n == at && isURL(texts[n]) { // of a URL, the last form knows most
			at, cause = n, err
		}
	}
	if len(all) > 0 {
		if all[0].Form == "decimal" {
			all = all[:1] // the texts are digits only, so they fit base 58 or 62 by accident
		}
		return all, nil
	}
	if rounded := RoundedText(texts[at]); rounded != "" {
		return nil, fmt.Errorf("%w: %s", snowflake.ErrInvalidID, rounded)
	}
	if other := foreign(texts[at]); other != "" {
		return nil, fmt.Errorf("%q is %s, which has more than 64 bits", texts[at], other)
	}
	return nil, cause
}

func (f form) read(texts []string) (ids []snowflake.ID, n int, err error) {
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

// isURL reports whether a text is a URL or a URN, such as urn:li:activity:5.
func isURL(s string) bool { return strings.Contains(s, "://") || strings.HasPrefix(s, "urn:") }

// siteOf returns the host of a URL, or the scheme of a URL whose host is an account, or the namespace of a URN.
func siteOf(s string) string {
	if strings.HasPrefix(s, "at://") {
		return "at://"
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return ""
	case u.Scheme == "urn":
		namespace, _, _ := strings.Cut(u.Opaque, ":")
		return "urn:" + namespace
	}
	return u.Hostname()
}

// parseURL returns the ID in the path of a URL, or in a URN.
func parseURL(s string) (snowflake.ID, error) {
	refused := fmt.Errorf("%w: %.80q is no URL with an ID", snowflake.ErrInvalidID, s)
	if account, ok := strings.CutPrefix(s, "at://"); ok {
		s = "at://" + strings.ReplaceAll(account, ":", ".") // as in at://did:plc:abc: a host has no colons
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" && u.Scheme != "urn" {
		return 0, refused
	}
	best, site := snowflake.ID(-1), siteOf(s)
	of := func(host string) bool { return site == host || strings.HasSuffix(site, "."+host) }
	parts := strings.FieldsFunc(u.Path+u.Opaque, func(r rune) bool {
		return strings.ContainsRune("/:,()", r) || r == '-' && of("linkedin.com") // posts/name_words-activity-5-abcd
	})
	for _, part := range parts {
		id, err := snowflake.ParseID(part)
		if err != nil {
			id, err = parseSortable(part)
		}
		if err != nil && of("instagram.com") {
			id, err = parseShortcode(part)
		}
		if err != nil && of("weibo.com") {
			id, err = parseWeibo(part)
		}
		if err == nil {
			best = max(best, id) // the other numbers of a path are small, or the IDs of what the ID is a part of
		}
	}
	if best < 0 {
		return 0, refused
	}
	return best, nil
}

// weiboDigits are the digits of Weibo's base 62.
const weiboDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// parseWeibo reads Weibo's form of an ID: from the right, 4 digits of base 62 for 7 decimal digits.
func parseWeibo(s string) (snowflake.ID, error) {
	if len(s) != 9 || !only(s, weiboDigits) {
		return 0, snowflake.ErrInvalidID
	}
	var id snowflake.ID
	for _, part := range []string{s[:1], s[1:5], s[5:]} {
		v := 0
		for _, digit := range part {
			v = 62*v + strings.IndexRune(weiboDigits, digit)
		}
		id = id*10_000_000 + snowflake.ID(v)
	}
	return id, nil
}

// parseShortcode reads Instagram's form of an ID.
func parseShortcode(s string) (snowflake.ID, error) {
	if len(s) != 11 {
		return 0, snowflake.ErrInvalidID
	}
	b, err := base64.URLEncoding.DecodeString("A" + s) // 66 bits, and 6 that are 0
	if err != nil || b[0] != 0 || b[1]&0x80 != 0 {
		return 0, snowflake.ErrInvalidID
	}
	return snowflake.ID(binary.BigEndian.Uint64(b[1:])), nil
}

// commonHost returns the site of URLs, or "" if there are several.
func commonHost(texts []string) (host string) {
	for i, text := range texts {
		site := siteOf(text)
		if i > 0 && site != host {
			return ""
		}
		host = site
	}
	return host
}

// foreign returns what a text is if it is an ID of another kind, or else "".
func foreign(s string) string {
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
	case len(s) == 20 && only(s, "0123456789abcdefghijklmnopqrstuv") && !only(s, "0123456789"): // a number of 20 digits is more likely
		return "an ID of rs/xid, of 96 bits"
	}
	return ""
}

func only(s, digits string) bool { return strings.Trim(s, digits) == "" }
