package texts

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/typed"
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
	{"base 58", parseLong58},
	{"base 32, without leading zeros", padded(snowflake.ParseBase32, 13)},
	{"base 62, without leading zeros", padded(snowflake.ParseBase62, 11)},
	{"base 32, sortable", parseSortable},
	{"hexadecimal", parseHex},
	{"typed", parseTyped},
	{SeataXID, parseXID},
	{"URL", parseURL},
}

// Reading has the IDs of texts that were read in one form.
type Reading struct {
	Form    string         `json:"form"`
	IDs     []snowflake.ID `json:"ids"`
	Skipped []Skipped      `json:"skipped,omitempty"` // the texts that do not fit the form, under half
	Host    string         `json:"-"`                 // the host of the URLs, if they share one
}

// Skipped is a text that is not an ID.
type Skipped struct {
	At   int    `json:"at"` // the index among the texts
	Text string `json:"text"`
	Why  string `json:"why"`
}

// IDs returns the IDs of the texts, in each form that fits most of them. If no form fits more than
// half, the error is that of the form that fits the most texts from the first on.
func IDs(texts []string) ([]Reading, error) {
	var all []Reading
	at, cause := -1, error(nil)
	for _, f := range forms {
		r, n, err := f.read(texts)
		switch {
		case len(all) > 0 && len(r.IDs) < len(all[0].IDs):
		case 2*len(r.IDs) > len(texts) && (len(all) == 0 || len(r.IDs) > len(all[0].IDs)):
			all = []Reading{r}
		case 2*len(r.IDs) > len(texts) && all[0].Form != "decimal": // digits fit others by chance
			all = append(all, r)
		}
		if err != nil && (n > at || n == at && isURL(texts[n])) { // the last form is that of URLs
			at, cause = n, err
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%w: there are no texts", snowflake.ErrInvalidID)
	}
	if len(all) == 0 {
		return nil, explain(texts[at], cause)
	}
	if at := slices.IndexFunc(all, func(r Reading) bool { return r.Form == "base 58" }); at > 0 && lackBase62(texts) {
		all[0], all[at] = all[at], all[0]
	}
	return all, nil
}

// lackBase62 reports whether texts lack the digits 0, I, O and l, which base 62 has and base 58
// does not, although the chance of that in base 62 is under 1 in 100. A digit that is often at the
// same place, as those of the time are, counts once there.
func lackBase62(texts []string) bool {
	const length = 11 // a shorter text is not in base 62
	var seen [length][256]bool
	var digits [length]float64 // the number of digits seen at each place
	accident := 1.0
	for _, text := range texts {
		if text = Bare(text); len(text) != length || strings.ContainsAny(text, "0IOl") || !only(text, base62) {
			continue
		}
		for i, digit := range []byte(text) {
			if !seen[i][digit] {
				accident *= (58 - digits[i]) / (62 - digits[i])
				seen[i][digit] = true
				digits[i]++
			}
		}
	}
	return accident < 0.01
}

// read reads texts in a form. n is the index of the first text that does not fit, and err its
// error.
func (f form) read(texts []string) (r Reading, n int, err error) {
	r.Form, n = f.name, len(texts)
	var kept []string
	for i, text := range texts {
		id, refused := f.parse(Bare(text))
		if refused == nil {
			r.IDs = append(r.IDs, id)
			kept = append(kept, text)
			continue
		}
		if n > i {
			n, err = i, refused
		}
		if 2*len(r.Skipped) < len(texts) { // otherwise the reading is discarded
			r.Skipped = append(r.Skipped, Skipped{i, text, plainly(explain(text, refused))})
		}
	}
	if f.name == "URL" {
		r.Host = commonHost(kept)
	}
	return r, n, err
}

// Reader returns a function that reads texts in the form that fits most of a sample: decimal if no
// form fits more than half. The errors of parse name what a text is instead of an ID.
func Reader(sample []string) (name string, parse func(string) (snowflake.ID, error)) {
	f := forms[0]
	if all, err := IDs(sample); err == nil {
		f = forms[slices.IndexFunc(forms, func(f form) bool { return f.name == all[0].Form })]
	}
	return f.name, func(s string) (snowflake.ID, error) {
		id, err := f.parse(Bare(s))
		if err != nil {
			err = explain(s, err)
		}
		return id, err
	}
}

// plainly returns the text of an error without the prefix that all errors have.
func plainly(err error) string { return strings.TrimPrefix(err.Error(), "snowflake: ") }

// explain returns an error that names what a text is instead of an ID, or err if that is unknown.
func explain(text string, err error) error {
	text = Bare(text)
	if why := Inexact(text); why != "" {
		return fmt.Errorf("%w: %.40q is %s; read it from its source again, as text", snowflake.ErrInvalidID, text, why)
	}
	if other := foreign(text); other != "" {
		return fmt.Errorf("%w: %q is %s, which has more than 64 bits", snowflake.ErrInvalidID, text, other)
	}
	if looksOpaque(text) {
		return fmt.Errorf("%w: %.8q... may be an opaque text: use snowflake decode --key-file", snowflake.ErrInvalidID, text)
	}
	if v, bad := strconv.ParseUint(text, 16, 63); bad == nil && len(text) > shortest && !only(text, "0123456789") {
		return fmt.Errorf("%w: %q may be %d in hexadecimal: write 0x before it", snowflake.ErrInvalidID, text, v)
	}
	if v, bad := strconv.ParseInt(text, 10, 64); bad == nil && v < 0 {
		return fmt.Errorf("%w: %d is negative, and no ID is", snowflake.ErrInvalidID, v)
	}
	if strings.ContainsAny(text, " {") {
		return fmt.Errorf("%w: %.40q has more than an ID: snowflake decode - finds the IDs of a log", snowflake.ErrInvalidID, text)
	}
	return err
}

// looksOpaque reports whether a text has the form of package opaque. In capitals, a text of 26
// characters in base 32 is a ULID.
func looksOpaque(s string) bool {
	s = s[strings.LastIndexByte(s, '_')+1:]
	return len(s) == 22 && only(s, base62) || len(s) == 26 && only(s, strings.ToLower(crockford))
}

const (
	crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	base62    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// shortest is the least length of an ID without leading zeros, so that a word such as abc is not
// taken for an ID. In base 58, a shorter ID is below 58^6, and so from the first ten seconds of the
// default layout.
const shortest = 7

// parseLong58 reads base 58 of shortest or more characters.
func parseLong58(s string) (snowflake.ID, error) {
	id, err := snowflake.ParseBase58(s)
	if err == nil && len(s) < shortest {
		err = fmt.Errorf("%w: %q is not a decimal number, and has %d characters: an ID in base 58 has at least %d here",
			snowflake.ErrInvalidID, s, len(s), shortest)
	}
	return id, err
}

// padded returns a parser of texts that leave out the leading zeros which parse wants.
func padded(parse func(string) (snowflake.ID, error), length int) func(string) (snowflake.ID, error) {
	return func(s string) (snowflake.ID, error) {
		if len(s) < shortest || len(s) >= length || s[0] == '0' {
			return 0, fmt.Errorf("%w: %.32q is not %d to %d characters without leading zeros",
				snowflake.ErrInvalidID, s, shortest, length-1)
		}
		return parse(strings.Repeat("0", length-len(s)) + s)
	}
}

// parseHex reads hexadecimal digits: any number after 0x, or 14 to 16 alone, as many as IDs of most
// layouts have. Fewer digits may be a text in another form.
func parseHex(s string) (snowflake.ID, error) {
	refused := fmt.Errorf("%w: %.32q is neither 0x and hexadecimal digits nor 14 to 16 of them, up to 7fffffffffffffff",
		snowflake.ErrInvalidID, s)
	digits, prefixed := strings.CutPrefix(strings.ToLower(s), "0x")
	if !prefixed && (len(s) < 14 || len(s) > 16) {
		return 0, refused
	}
	v, err := strconv.ParseUint(digits, 16, 63)
	if err != nil {
		return 0, refused
	}
	return snowflake.ID(v), nil
}

// parseTyped reads a text of package typed, with any prefix.
func parseTyped(s string) (snowflake.ID, error) {
	id, err := typed.ParseAny(s)
	return id.ID, err
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

// SeataXID is the form of the IDs of Seata's global transactions: the address of a server and an
// ID. It is the Form of Seata's layouts.
const SeataXID = "XID of Seata"

// parseXID reads 192.168.1.5:8091:4269746926734658025.
func parseXID(s string) (snowflake.ID, error) {
	address, digits := s[:max(0, strings.LastIndexByte(s, ':'))], s[strings.LastIndexByte(s, ':')+1:]
	_, port, err := net.SplitHostPort(address)
	_, bad := strconv.ParseUint(port, 10, 16)
	// A time, such as 12:30:45, has colons, too.
	if err != nil || bad != nil || len(digits) < shortest || strings.Contains(s, " ") {
		return 0, fmt.Errorf("%w: %.80q is not a host, a port and an ID with colons between them", snowflake.ErrInvalidID, s)
	}
	return snowflake.ParseID(digits)
}

// isURL reports whether a text is a URL or a URN, such as urn:li:activity:5.
func isURL(s string) bool { return strings.Contains(s, "://") || strings.HasPrefix(s, "urn:") }

// siteOf returns the host of a URL, or the scheme of a URL whose host is an account, or the
// namespace of a URN.
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
	refused := fmt.Errorf("%w: %.80q is not a URL with an ID", snowflake.ErrInvalidID, s)
	if account, ok := strings.CutPrefix(s, "at://"); ok {
		// A host has no colons, as at://did:plc:abc has.
		s = "at://" + strings.ReplaceAll(account, ":", ".")
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" && u.Scheme != "urn" {
		return 0, refused
	}
	best, site := snowflake.ID(-1), siteOf(s)
	of := func(host string) bool { return site == host || strings.HasSuffix(site, "."+host) }
	parts := strings.FieldsFunc(u.Path+u.Opaque, func(r rune) bool {
		// LinkedIn's are like posts/name_words-activity-5-abcd.
		return strings.ContainsRune("/:,()", r) || r == '-' && of("linkedin.com")
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
			// Other numbers in a path are small, or are older IDs, such as the account's.
			best = max(best, id)
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

// foreign returns the name of a text's kind if it is an ID of another kind, and otherwise "".
func foreign(s string) string {
	switch {
	case len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' &&
		only(strings.ReplaceAll(s, "-", ""), "0123456789abcdefABCDEF"):
		return "a UUID, version " + s[14:15]
	case len(s) == 26 && only(s, crockford):
		return "a ULID"
	case len(s) == 16 && only(s, "23456789abcdefghijklmnopqrstuvwx"):
		// See internal/encoding.go of muyo/sno.
		return "an ID of muyo/sno, of 80 bits"
	case len(s) == 24 && only(strings.ToLower(s), "0123456789abcdef"):
		return "an ObjectID of MongoDB, of 96 bits"
	case len(s) == 20 && only(s, "0123456789abcdefghijklmnopqrstuv") && !only(s, "0123456789"):
		// 20 digits are more likely a number.
		return "an ID of rs/xid, of 96 bits"
	}
	return ""
}

func only(s, digits string) bool { return strings.Trim(s, digits) == "" }
