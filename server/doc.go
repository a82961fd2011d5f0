// Package server is latchkey over HTTP: the only package that knows it.
//
// # The way of a request
//
// Server.ServeHTTP notes when the request arrived and sees to it that one log line and one count are left of it, whatever
// happens. The router finds the operation. The guard (input.go) looks at a request from the outside first: its announced
// size, the rate of its address, who sends it (who.go, package access), the rate of that principal. Then it reads the whole
// body and refuses what the contract does not allow, all faults in one answer. The generated code turns the request into Go (bodies.go its body, which the guard
// has read already), a method of handlers asks the store and dresses its answer.
//
// # The table of failures
//
// Whatever goes wrong, and wherever, ends in failureOf (problems.go), the one place where a failure becomes a status and
// a code:
//
//	the request is at fault                   400 404 405 408 413 415
//	nobody known, or not allowed              401 403
//	no such lock, no such lease               404
//	another has the lock, or it is queued     409
//	held for as long as may be; broken        409 410
//	the key stands for another claim          422
//	too much of something (limits.go)         429
//	the store cannot, or did not say          503
//	anything else                             500, telling nothing of its cause
//
// # What is never told
//
// Ids of locks and leases, idempotency keys and credentials are in no log line, no metric and no problem: logs and metrics
// have the operation instead of the path, and problems never repeat a value of the request. Lists have ids for their owners
// and for administrators only.
package server
