package server

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

const idempotencyKey = "Idempotency-Key"

// guard refuses what the contract does not allow, before anything else reads the request. It reads the body to its end:
// of a client whose body is unread nobody would notice that it leaves.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ex := exchangeOf(r.Context())
		ex.operation = s.contract.of(r)
		err := s.letIn(ex, r)
		if err == nil {
			ex.fields, err = s.admit(w, r, ex.operation)
		} else {
			s.passOver(w, r)
		}
		if err == nil && ex.operation.dear() {
			var done func()
			if done, err = s.limits.dear.take(r.Context(), ex.who.Name); err == nil {
				defer done()
			}
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// letIn looks at a request from the outside, and at the dearest last: how much is announced, where it comes from, who
// sends it, and how much they send.
func (s *Server) letIn(ex *exchange, r *http.Request) error {
	if r.ContentLength > s.cfg.MaxBody {
		return &bodyTooLargeError{s.cfg.MaxBody}
	}
	if err := s.slowEnough(ex, r); err != nil {
		return err
	}
	op := ex.operation
	if err := s.recognise(ex, r); err != nil {
		return err
	}
	if ex.who.Name != "" && !s.limits.principals.allow(sender{ex.who.Name, op.upkeep()}, ex.arrived) {
		s.metrics.refused.WithLabelValues("rate_of_principal").Inc()
		return tooManyRequests("principal", s.limits.RatePerPrincipal)
	}
	return nil
}

// slowEnough bounds what comes from one address, whatever it asks. Only whether this process is well may always be asked.
func (s *Server) slowEnough(ex *exchange, r *http.Request) error {
	op := ex.operation
	if s.limits.addresses == nil || op.id == "healthz" || op.id == "readyz" || ex.trusted() ||
		s.limits.addresses.allow(sender{networkOfSender(r.RemoteAddr), op.upkeep()}, ex.arrived) {
		return nil
	}
	s.metrics.refused.WithLabelValues("rate_of_address").Inc()
	return tooManyRequests("address", s.limits.RatePerAddress)
}

// maxPassedOver is how much body of a refused request is read, in bytes: more than an ordinary claim has.
const maxPassedOver = 4 << 10

// passOver reads a small body that nobody wants, so that the connection can go on: whoever is refused for sending too much,
// or with a token that ran out, would come with a new one each time.
func (s *Server) passOver(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength > 0 && r.ContentLength <= min(maxPassedOver, s.cfg.MaxBody) {
		_, _ = s.readBody(w, r) // if it does not come, the connection ends
	}
}

// admit returns the fields of the body of a request that may be served.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, op *operation) (map[string]any, error) {
	if err := checkID(r); err != nil {
		return nil, err
	}
	if err := checkMediaType(r, op); err != nil {
		return nil, err
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return nil, err
	}
	var found faults
	s.checkQuery(r, op, &found)
	s.checkHeader(r, op, &found)
	fields := s.checkBody(body, op, &found)
	return fields, found.err()
}

// checkID knows that our ids have one spelling, which a URL does not escape: what is escaped is none of them, nor is
// nothing at all.
func checkID(r *http.Request) error {
	if !strings.Contains(r.URL.EscapedPath(), "%") && !strings.Contains(r.URL.Path, "//") {
		return nil
	}
	if strings.HasPrefix(r.URL.Path, "/leases/") {
		return store.ErrNoLease
	}
	return store.ErrNoLock
}

func checkMediaType(r *http.Request, op *operation) error {
	for _, encoding := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return errMediaType
		}
	}
	if !op.needBody {
		return nil
	}
	types := r.Header.Values("Content-Type")
	if len(types) != 1 {
		return errMediaType
	}
	if types[0] == "application/json" {
		return nil
	}
	mediaType, parameters, err := mime.ParseMediaType(types[0])
	if err != nil || mediaType != "application/json" {
		return errMediaType
	}
	if charset, ok := parameters["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return errMediaType
	}
	return nil
}

// readBody reads the body to its end, within a size; the time is bounded since the request began.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == http.NoBody {
		return nil, nil
	}
	ex := exchangeOf(r.Context())
	ex.invited = true
	body, err := s.readText(w, r)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		ex.unread = false
		ex.note(http.NewResponseController(w).SetReadDeadline(time.Time{}))
		return body, nil
	case errors.As(err, &tooLarge):
		return nil, &bodyTooLargeError{s.cfg.MaxBody}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errBodyTooSlow
	default:
		var found faults
		found.body(nil, "could not be read to its end")
		return nil, found.err()
	}
}

// readText makes room at once for what has been announced, if that is little: much may never come. net/http tells the end
// of an announced body with its last byte.
func (s *Server) readText(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 || r.ContentLength > maxPlain {
		return io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxBody))
	}
	text := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, text)
	return text, err
}

// checkBody returns the fields, if there are any.
func (s *Server) checkBody(text []byte, op *operation, found *faults) map[string]any {
	if len(bytes.TrimSpace(text)) == 0 {
		if op.needBody {
			found.body(nil, "must be a JSON object, and is empty")
		}
		return nil
	}
	value, ok := readJSON(text, found)
	if !ok {
		return nil
	}
	fields, ok := value.(map[string]any)
	if ok && op.needBody {
		if fields["ttl_seconds"] != nil && fields["lease_id"] != nil {
			found.body([]string{"ttl_seconds"}, "must not be given together with lease_id: the lease has its own")
		}
		for field, value := range fields {
			if detail := s.outOfBounds(field, value); detail != "" {
				found.body([]string{field}, detail)
			}
		}
	}
	if op.shape.allows(value) {
		return fields
	}
	for _, fault := range schemaFaults(op.body, value) {
		found.body(fault.at, fault.detail)
	}
	return fields
}

func (s *Server) checkQuery(r *http.Request, op *operation, found *faults) {
	if r.URL.RawQuery == "" {
		return
	}
	seen := url.Values{}
	for _, pair := range strings.Split(r.URL.RawQuery, "&") {
		if pair == "" {
			continue
		}
		name, value, err := unescapePair(pair)
		schema := op.query[name]
		switch {
		case err != nil:
			found.parameter(name, "is not escaped as a URL must be")
		case schema == nil:
			found.parameter(name, "is not a parameter of this operation")
		case seen.Has(name):
			found.parameter(name, "must be given once")
		default:
			s.checkParameter(name, value, schema, found)
		}
		seen.Add(name, value)
	}
	if seen.Has("name") && seen.Has("prefix") {
		found.parameter("prefix", "must not be given together with name")
	}
}

// unescapePair also refuses a bare semicolon: some take it for a separator.
func unescapePair(pair string) (name, value string, err error) {
	rawName, rawValue, _ := strings.Cut(pair, "=")
	name, nameErr := url.QueryUnescape(rawName)
	value, err = url.QueryUnescape(rawValue)
	if nameErr != nil {
		return rawName, "", nameErr
	}
	if strings.Contains(pair, ";") {
		return name, "", errors.New("a bare semicolon")
	}
	return name, value, err
}

func (s *Server) checkHeader(r *http.Request, op *operation, found *faults) {
	for name, schema := range op.header {
		values := r.Header.Values(name)
		switch {
		case len(values) > 1:
			found.parameter(name, "must be given once")
		case len(values) == 1:
			s.checkParameter(name, values[0], schema, found)
		}
	}
}

func (s *Server) checkParameter(name, text string, schema *openapi3.Schema, found *faults) {
	var value any = text
	switch {
	case schema.Type.Is(openapi3.TypeInteger):
		number, ok := integer(text)
		if !ok {
			found.parameter(name, "must be "+wholeNumber)
			return
		}
		value = number
	case !utf8.ValidString(text):
		found.parameter(name, "must be valid UTF-8")
		return
	}
	if detail := s.outOfBounds(name, value); detail != "" {
		found.parameter(name, detail)
		return
	}
	for _, fault := range schemaFaults(schema, value) {
		found.parameter(name, fault.detail)
	}
}

// faults are the places of a request that are at fault. Of several faults in one place the first is told.
type faults struct {
	list []api.InputFault
	seen map[string]bool
}

// maxFaults bounds the answer to a request that has many.
const maxFaults = 32

func (f *faults) body(at []string, detail string) {
	if i := slices.IndexFunc(at, mayBeSecret); i >= 0 {
		at, detail = at[:i], "one of its fields "+detail
	}
	pointer := jsonPointer(at)
	f.add("body "+pointer, api.InputFault{Pointer: &pointer, Detail: detail})
}

func (f *faults) parameter(name, detail string) {
	if name == "" || mayBeSecret(name) {
		name, detail = "query", "one of its parameters "+detail
	}
	f.add("parameter "+name, api.InputFault{Parameter: shown(name), Detail: detail})
}

func (f *faults) add(place string, fault api.InputFault) {
	if f.seen[place] || len(f.list) == maxFaults {
		return
	}
	if f.seen == nil {
		f.seen = map[string]bool{}
	}
	f.seen[place] = true
	f.list = append(f.list, fault)
}

func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortFunc(f.list, func(a, b api.InputFault) int { return strings.Compare(placeOf(a), placeOf(b)) })
	return &inputError{f.list}
}

func placeOf(f api.InputFault) string { return valueOr(f.Pointer, "") + f.Parameter }

var plainWords = regexp.MustCompile(`^[a-z_]{1,32}$`)

// mayBeSecret tells of a name that a client made up whether it could be an id or a key, which are never repeated: it is
// as long as the shortest of them, and no words that somebody only mistyped.
func mayBeSecret(name string) bool { return len(name) >= minKey && !plainWords.MatchString(name) }

func shown(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// jsonPointer is RFC 6901's.
func jsonPointer(at []string) string {
	var pointer strings.Builder
	for _, key := range at {
		pointer.WriteByte('/')
		pointer.WriteString(pointerEscapes.Replace(shown(key)))
	}
	return pointer.String()
}
