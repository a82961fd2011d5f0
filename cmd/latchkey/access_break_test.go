package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// TestAnAdministratorBreaksALock: the next in line has it at once, its former holder is told why, and the audit log tells who did it
// and no id. OWASP API5, API6.
func TestAnAdministratorBreaksALock(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit.log")
	r := newRealm(t, "holder", lockEverything, "waiter", lockEverything, "stranger", lockEverything, "reader", readEverything,
		"admin", adminEverything, "admin elsewhere", on("elsewhere", "admin"))
	a, b := r.replicas("--audit-log="+audit, "--log-level=debug")
	holder, waiter, admin := r.as("holder"), r.as("waiter"), r.as("admin")
	const name, why = "team/deploy", "host «web-3» was taken\u2028out of service"
	lock := holder.claim(a.url, api.LockRequest{Name: name, TTLSeconds: 9, Holder: "web-3"}, "Idempotency-Key", "a key of the holder")
	place := waiter.claim(b.url, api.LockRequest{Name: name, TTLSeconds: 120, Queue: true})
	kept := map[string]*events{"there": holder.open(a.url + "/leases/" + lock.ID + "/keepalive"), "elsewhere": holder.open(b.url + "/leases/" + lock.ID + "/keepalive")}
	for _, s := range kept {
		s.await("renewed")
	}
	waited := waiter.open(b.url + "/locks/" + place.ID + "/events")
	waited.await("queued")

	breaking := "/locks/" + lock.ID + "?reason=" + url.QueryEscape(why)
	t.Run("only administrators of the name", func(t *testing.T) {
		for _, replica := range []string{a.url, b.url} {
			for _, who := range []string{"holder", "waiter", "stranger", "reader"} {
				r.as(who).want(403, "forbidden", http.MethodDelete, replica+breaking, "")
			}
			r.as("admin elsewhere").want(404, "lock_not_found", http.MethodDelete, replica+breaking, "")
			newCaller(t, "", nil).want(401, "unauthorized", http.MethodDelete, replica+breaking, "")
			admin.want(400, "invalid_request", http.MethodDelete, replica+"/locks/"+lock.ID, "") // without a reason
			holder.wantHeld(replica, lock)
		}
	})

	var shown api.ListedLock
	for _, l := range decoded[api.LockList](t, admin.want(200, "", http.MethodGet, b.url+"/locks?state=held", "").body).Locks {
		shown = l
	}
	if shown.ID != lock.ID {
		t.Fatalf("an administrator is shown %+v", shown)
	}
	began := time.Now()
	admin.want(204, "", http.MethodDelete, b.url+breaking, "")
	granted := decoded[api.Lock](t, waited.await("held").data)
	took := time.Since(began)
	t.Logf("granted %v after the break was asked for", took)
	if took > slack/2 {
		t.Errorf("the next in line is granted at once, and was after %v", took)
	}
	if granted.ID != place.ID || granted.FencingToken <= lock.FencingToken {
		t.Errorf("after the token %d the next in line is granted %+v", lock.FencingToken, granted)
	}

	t.Run("the former holder is told", func(t *testing.T) {
		for where, s := range kept {
			if told := decoded[api.Problem](t, s.await("lost").data); told.Code != "lock_broken" || told.Status != 410 || told.Reason != why {
				t.Errorf("the stream %s is told %+v", where, told)
			}
		}
		for _, replica := range []string{a.url, b.url} {
			for what, try := range tryAll(lock.ID) {
				switch what {
				case "break", "claim on a lease":
					continue
				}
				got := holder.want(410, "lock_broken", try[0], replica+try[1], "")
				if told := decoded[api.Problem](t, got.body); told.Reason != why {
					t.Errorf("%s is told %+v", what, told)
				}
			}
			for what, try := range tryAll(lock.ID) { // that it was broken is its holder's business alone
				if what != "break" {
					r.as("stranger").want(404, "", try[0], replica+try[1], try[2])
				}
			}
			admin.want(404, "lock_not_found", http.MethodDelete, replica+breaking, "")
			waiter.wantHeld(replica, granted)
		}
		again := holder.want(409, "lock_held", http.MethodPost, a.url+"/locks", `{"name":"team/deploy"}`, "Idempotency-Key", "a key of the holder")
		if held := decoded[api.Problem](t, again.body); held.Holder == nil || held.Holder.Principal != "waiter" {
			t.Errorf("claimed again with the key of before: %s", again.body)
		}
	})

	t.Run("a place is broken too", func(t *testing.T) {
		other := r.as("stranger").claim(a.url, api.LockRequest{Name: name, Queue: true})
		followed := r.as("stranger").open(b.url + "/locks/" + other.ID + "/events")
		followed.await("queued")
		admin.want(204, "", http.MethodDelete, a.url+"/locks/"+other.ID+"?reason=no", "")
		if told := decoded[api.Problem](t, followed.await("lost").data); told.Code != "lock_broken" || told.Reason != "no" {
			t.Errorf("the stream is told %+v", told)
		}
		r.as("stranger").want(410, "lock_broken", http.MethodGet, b.url+"/locks/"+other.ID+"?wait_seconds=0", "")
	})

	t.Run("the audit log", func(t *testing.T) {
		lines := auditLines(t, audit)
		want := map[string]any{
			"msg": "lock broken", "by": "admin", "reason": why, "name": name, "fencing_token": float64(lock.FencingToken),
			"principal": "holder", "holder": "web-3", "from": "127.0.0.1", "outcome": "broken", "state": "held",
		}
		var broken []map[string]any
		refused := 0
		for _, line := range lines {
			if line["msg"] == "lock broken" && line["fencing_token"] == want["fencing_token"] {
				broken = append(broken, line)
			}
			if line["outcome"] == "forbidden" {
				refused++
			}
		}
		if len(broken) != 1 {
			t.Fatalf("of the one break tell %v", broken)
		}
		for field, value := range want {
			if broken[0][field] != value {
				t.Errorf("%s is %v, want %v", field, broken[0][field], value)
			}
		}
		if refused != 0 { // anybody could fill it with them; they are in the log of requests
			t.Errorf("%d refusals are in the audit log, want none", refused)
		}
	})

	t.Run("the audit log is moved away", func(t *testing.T) {
		if err := os.Rename(audit, audit+".1"); err != nil {
			t.Fatal(err)
		}
		admin.want(204, "", http.MethodDelete, a.url+"/locks/"+granted.ID+"?reason=moved", "")
		if lines := auditLines(t, audit); len(lines) != 1 || lines[0]["reason"] != "moved" {
			t.Errorf("the new audit log has %v", lines)
		}
		info, err := os.Stat(audit)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the new audit log is %v, %v", info.Mode(), err)
		}
	})

	told := a.log.String() + b.log.String()
	for _, file := range []string{audit, audit + ".1"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		told += string(text)
	}
	if !strings.Contains(told, "component=audit") {
		t.Error("what is audited is not in the log too")
	}
	for _, id := range []string{lock.ID, place.ID, r.tokens["admin"]} {
		for _, spelling := range spellings(id) {
			if strings.Contains(told, spelling) {
				t.Errorf("the logs have an id or a token: %s", spelling)
			}
		}
	}
}

// auditLines are those of the file, which is JSON line by line.
func auditLines(t *testing.T, file string) (lines []map[string]any) {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for all := bufio.NewScanner(opened); all.Scan(); {
		var line map[string]any
		if err := json.Unmarshal(all.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, all.Text())
		}
		lines = append(lines, line)
	}
	return lines
}
