// Package server is latchkey over HTTP: the only package that knows it.
//
// # The way of a request
//
// Server.ServeHTTP notes when the request arrived and sees to it that one log line and one count are left of it, whatever
// happens. The router finds the operation. The guard (input.go) reads the whole body and refuses what the contract does
// not allow, all faults in one answer. The generated code turns the request into Go (bodies.go its body, which the guard
// has read already), a method of handlers asks the store and dresses its answer.
//
// # The table of failures
//
// Whatever goes wrong, and wherever, ends in failureOf (problems.go), the one place where a failure becomes a status and
// a code:
//
//	the request is at fault                   400 404 405 408 413 415
//	no such lock, no such lease               404
//	another has the lock, or it is queued     409
//	the key stands for another claim          422
//	the name's queue is full                  429
//	the store cannot, or did not say          503
//	anything else                             500, telling nothing of its cause
//
// # What is never told
//
// Ids of locks and leases, and idempotency keys, are capabilities. They are in no log line, no metric and no problem:
// logs and metrics have the operation instead of the path, and problems never repeat a value of the request.
package server
