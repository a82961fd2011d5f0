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

// load makes a policy of the files, or says all that is wrong with them.
func (g *Gate) load() (*policy, content, error) {
	text, err := readFile(g.file)
	seen := content{auth: sumOf(text, err)}
	if err != nil {
		return nil, seen, err
	}
	f := readAuthFile(g.file, text)
	section := f.jwt
	if section == nil {
		return f.policy, seen, f.err()
	}
	f.policy.jwt = &issuer{section: section, now: g.now}
	if section.keysFile == "" {
		f.policy.jwt.keys = g.keysAt(section.keysURL)
		return f.policy, seen, f.err()
	}
	if seen.keysFile = section.keysFile; !filepath.IsAbs(seen.keysFile) {
		seen.keysFile = filepath.Join(filepath.Dir(g.file), seen.keysFile)
	}
	text, err = readFile(seen.keysFile)
	seen.keys = sumOf(text, err)
	k := &reader{file: seen.keysFile}
	f.policy.jwt.keys = k.fixedKeys(text, err)
	return f.policy, seen, errors.Join(f.err(), k.err())
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
