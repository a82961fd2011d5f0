package access

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxFile is how long the auth file and the key file may be, in bytes.
const maxFile = 4 << 20

// content is what the files were when they were read, an unreadable one being its error.
type content struct {
	auth, keys [sha256.Size]byte
	keysFile   string
}

func sumOf(text []byte, err error) [sha256.Size]byte {
	if err != nil {
		text = []byte(err.Error())
	}
	return sha256.Sum256(text)
}

// load makes a policy of the files, and says all that is wrong with them. A faulty one stands for what is in force of it, so
// that it does not keep the other from being heard; where nothing is, or where that is not enough, there is no policy.
func (g *Gate) load() (next *policy, seen content, faults error) {
	inForce := g.policy.Load()
	next, section, err := g.readAuth(&seen)
	if err != nil && inForce != nil {
		next, section = &policy{bearers: inForce.bearers, certificates: inForce.certificates}, inForce.section()
	}
	if section == nil {
		return next, seen, err
	}
	keys, keysErr := g.keysOf(section, &seen)
	if keys == nil && keysErr != nil {
		return nil, seen, errors.Join(err, keysErr)
	}
	next.jwt = &issuer{section: section, keys: keys, now: g.now}
	return next, seen, errors.Join(err, keysErr)
}

// readAuth reads the auth file, as far as that is possible.
func (g *Gate) readAuth(seen *content) (*policy, *jwtSection, error) {
	text, err := readFile(g.file)
	seen.auth = sumOf(text, err)
	if err != nil {
		return nil, nil, err
	}
	f := readAuthFile(g.file, text)
	return f.policy, f.jwt, f.err()
}

// keysOf are the keys by which the section's JWTs are verified. Those in force stand in for a faulty key file if they were of
// the same file and issuer.
func (g *Gate) keysOf(section *jwtSection, seen *content) (keys, error) {
	if section.keysFile == "" {
		return g.keysAt(section.keysURL), nil
	}
	if seen.keysFile = section.keysFile; !filepath.IsAbs(seen.keysFile) {
		seen.keysFile = filepath.Join(filepath.Dir(g.file), seen.keysFile)
	}
	text, err := readFile(seen.keysFile)
	seen.keys = sumOf(text, err)
	r := &reader{file: seen.keysFile}
	fixed := r.fixedKeys(text, err)
	if err = r.err(); err == nil {
		return fixed, nil
	}
	inForce := g.policy.Load()
	if inForce != nil && inForce.jwt != nil {
		if was := inForce.jwt.section; was.keysFile == section.keysFile && was.issuer == section.issuer {
			return inForce.jwt.keys, err
		}
	}
	return nil, err
}

// keysAt returns those in force if they are of the same URL: they are known already, and so is how often they may be fetched.
func (g *Gate) keysAt(url string) *remoteKeys {
	if remote, is := g.remote(); is && remote.url == url {
		return remote
	}
	return newRemoteKeys(url, g.now, g.log, g.metrics.fetches)
}

// readFile reads all of a file, which must be a regular one: it is read again and again.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name) // first, as to open a pipe would wait for its other end
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	opened, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	text, err := io.ReadAll(io.LimitReader(opened, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, maxFile)
	}
	return text, nil
}
