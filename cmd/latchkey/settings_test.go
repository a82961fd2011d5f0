package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestBadSettingsAreRefusedByName(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := "--etcd-endpoints=https://a:1"
	for name, tt := range map[string]struct {
		args []string
		want []string // flags told, in order
	}{
		"an address without a port":   {[]string{"--listen=localhost"}, []string{"listen"}},
		"an address with a bad port":  {[]string{"--listen=localhost:99999"}, []string{"listen"}},
		"a wait too long":             {[]string{"--max-wait=10m1s"}, []string{"max-wait"}},
		"a wait of part of a second":  {[]string{"--max-wait=1500ms"}, []string{"max-wait"}},
		"a duration without a unit":   {[]string{"--max-ttl=30"}, []string{"max-ttl"}},
		"a largest TTL below default": {[]string{"--max-ttl=29s"}, []string{"max-ttl"}},
		"no waiting TTL":              {[]string{"--waiting-ttl=0s"}, []string{"waiting-ttl"}},
		"a negative drain":            {[]string{"--drain-timeout=-1s"}, []string{"drain-timeout"}},
		"no time for requests":        {[]string{"--request-timeout=1ms"}, []string{"request-timeout"}},
		"no waiters":                  {[]string{"--max-waiters=0"}, []string{"max-waiters"}},
		"a number that is none":       {[]string{"--max-queue=many"}, []string{"max-queue"}},
		"no connections":              {[]string{"--max-connections=-1"}, []string{"max-connections"}},
		"an unknown log format":       {[]string{"--log-format=xml"}, []string{"log-format"}},
		"an unknown log level":        {[]string{"--log-level=trace"}, []string{"log-level"}},
		"no directory":                {[]string{"--data-dir="}, []string{"data-dir"}},
		"a prefix without its end":    {[]string{"--etcd-prefix=/locks"}, []string{"etcd-prefix"}},
		"a prefix with a NUL":         {[]string{"--etcd-prefix=/a\x00/"}, []string{"etcd-prefix"}},
		"an endpoint without a port":  {[]string{"--etcd-endpoints=http://etcd"}, []string{"etcd-endpoints"}},
		"an endpoint of another kind": {[]string{"--etcd-endpoints=ftp://etcd:2379"}, []string{"etcd-endpoints"}},
		"an endpoint with a path":     {[]string{"--etcd-endpoints=http://etcd:2379/v3"}, []string{"etcd-endpoints"}},
		"endpoints of two kinds":      {[]string{"--etcd-endpoints=http://a:1,https://b:1"}, []string{"etcd-endpoints"}},
		"TLS files without TLS":       {[]string{"--etcd-endpoints=http://a:1", "--etcd-cacert=" + empty}, []string{"etcd-endpoints", "etcd-cacert"}},
		"a CA file that is missing":   {[]string{cluster, "--etcd-cacert=/nowhere"}, []string{"etcd-cacert"}},
		"a CA file without any":       {[]string{cluster, "--etcd-cacert=" + empty}, []string{"etcd-cacert"}},
		"a certificate that is none":  {[]string{cluster, "--etcd-cert=" + empty, "--etcd-key=" + empty}, []string{"etcd-cert"}},
		"a certificate without key":   {[]string{cluster, "--etcd-cert=/nowhere"}, []string{"etcd-cert"}},
		"a user without password":     {[]string{cluster, "--etcd-username=u"}, []string{"etcd-username"}},
		"a password without user":     {[]string{cluster, "--etcd-password=p"}, []string{"etcd-password"}},
		"an empty password file":      {[]string{cluster, "--etcd-username=u", "--etcd-password-file=" + empty}, []string{"etcd-password-file"}},
		"two passwords":               {[]string{cluster, "--etcd-username=u", "--etcd-password=p", "--etcd-password-file=/nowhere"}, []string{"etcd-password-file", "etcd-password-file"}},
		"a user without a cluster":    {[]string{"--etcd-username=u"}, []string{"etcd-username"}},
		"all of them together": {[]string{"--listen=a", "--max-wait=b", "--max-queue=c", "--log-level=d", "--etcd-prefix=e"},
			[]string{"listen", "max-wait", "max-queue", "etcd-prefix", "log-level"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := call(append([]string{"serve"}, tt.args...)...)
			if !isStartError(err) {
				t.Fatalf("ended with %v, want a bad start", err)
			}
			head, told, _ := strings.Cut(err.Error(), "\n")
			if head != "bad settings:" {
				t.Fatalf("told %q", err)
			}
			var got []string
			for line := range strings.Lines(told) {
				flag, rest, _ := strings.Cut(strings.TrimPrefix(line, "  --"), " ")
				got = append(got, flag)
				if env := "(LATCHKEY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) + ") "; !strings.HasPrefix(rest, env) {
					t.Errorf("%q does not name its variable", line)
				}
			}
			if strings.Join(got, " ") != strings.Join(tt.want, " ") {
				t.Errorf("told of %v, want %v:\n%v", got, tt.want, err)
			}
		})
	}
}

func TestArgumentsThatAreNotTextAreRefused(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--data-dir=a\xfe"}, "--data-dir must be UTF-8"},
		{[]string{"serve", "--data-dir", "\xfe"}, "argument 3 must be UTF-8"},
		{[]string{"epoch", "show", "--\xff=a"}, "argument 3 must be UTF-8"},
	} {
		if _, err := call(tt.args...); !isStartError(err) || err.Error() != tt.want {
			t.Errorf("%q: ended with %v, want %s", tt.args, err, tt.want)
		}
	}
}

func TestSecretsAreNotTold(t *testing.T) {
	for name, args := range map[string][]string{
		"a password":                {"--etcd-password=hush", "--max-wait=x"},
		"a password in an endpoint": {"--etcd-endpoints=http://u:hush@etcd:2379"},
		"one that is no URL":        {"--etcd-endpoints=u:hush@etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := call(append([]string{"serve"}, args...)...); err == nil || strings.Contains(err.Error(), "hush") {
				t.Errorf("told %v", err)
			}
		})
	}
}

func TestFlagWinsOverItsVariable(t *testing.T) {
	t.Setenv("LATCHKEY_MAX_WAIT", "20s")
	t.Setenv("LATCHKEY_MAX_QUEUE", "7")
	t.Setenv("LATCHKEY_ETCD_ENDPOINTS", "a:1,b:2")
	parsed, err := parse([]string{"serve", "--max-wait=30s"}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c := parsed.(*serveCommand)
	if c.MaxWait.String() != "30s" || c.MaxQueue.int != 7 || strings.Join(c.EtcdEndpoints, " ") != "a:1 b:2" {
		t.Errorf("got max-wait %v, max-queue %d, endpoints %v", c.MaxWait, c.MaxQueue.int, c.EtcdEndpoints)
	}
}

func TestHelpShowsEveryFlagWithItsVariableAndDefault(t *testing.T) {
	var all commands
	parser, err := kong.New(&all, kong.NoDefaultHelp(), kong.DefaultEnvars("LATCHKEY"), bounds())
	if err != nil {
		t.Fatal(err)
	}
	err = kong.Visit(parser.Model, func(n kong.Visitable, next kong.Next) error {
		if command, is := n.(*kong.Node); is && command.Type == kong.CommandNode && len(command.Children) == 0 {
			help, err := call(append(strings.Fields(command.FullPath())[1:], "--help")...)
			if err != nil {
				t.Errorf("%s: %v", command.FullPath(), err)
			}
			help = strings.Join(strings.Fields(help), " ")
			for _, f := range command.Flags {
				wants := []string{"--" + f.Name, "$" + f.Envs[0]}
				if f.HasDefault {
					wants = append(wants, "default: "+f.Default)
				}
				for _, want := range wants {
					if !strings.Contains(help, want) {
						t.Errorf("%s: no %q in the help", command.FullPath(), want)
					}
				}
			}
		}
		return next(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestVersion(t *testing.T) {
	old := version
	t.Cleanup(func() { version = old })
	version = "v1.2.3"
	got, err := call("version")
	if err != nil || !strings.HasPrefix(got, "latchkey v1.2.3\netcd 3.") {
		t.Errorf("version says %q, %v", got, err)
	}
	version = ""
	if got := versionText(); got == "" {
		t.Error("a build without a version says nothing")
	}
}
