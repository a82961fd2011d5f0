package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// Bounds of the answer with an issuer's keys.
const (
	keysBound     = 5 * time.Second // from the dial to the last byte; requests whose JWTs name an unknown key wait for it
	maxKeysAnswer = 256 << 10       // bytes
	maxKeysHeader = 64 << 10        // bytes
)

// keysGetter returns what gets the keys at the URL, once a call. It follows no redirects.
func keysGetter(from string, log *slog.Logger) func(context.Context) (keyring, error) {
	client := &http.Client{
		Timeout: keysBound,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DisableKeepAlives:      true, // minutes lie between two calls
			MaxResponseHeaderBytes: maxKeysHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context) (keyring, error) {
		text, err := get(ctx, client, from)
		if err != nil {
			return nil, err
		}
		ring, unusable, err := readKeyring(text)
		if err != nil {
			return nil, fmt.Errorf("the answer %w", err)
		}
		for _, fault := range unusable {
			log.Debug("a key of the issuer cannot be used", "cause", fault)
		}
		return ring, nil
	}
}

func get(ctx context.Context, client *http.Client, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := client.Do(req)
	if of := (*url.Error)(nil); errors.As(err, &of) {
		return nil, of.Err // without the URL, whose query may be nobody's business
	} else if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer has the status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxKeysAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(text) > maxKeysAnswer {
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxKeysAnswer)
	}
	return text, nil
}
