// Package etcdtest gives tests a real etcd, as net/http/httptest gives them a real server, and the means to make it fail:
//
//   - [New]: one member in this process, quick enough that every test can have its own;
//   - [NewCluster]: members that are processes, to be killed and stopped for real;
//   - [NewProxy]: a line to etcd that can be slow, silent or cut;
//   - [NewFaults]: single calls that arrive late, never, or whose answer is lost.
//
// A package that uses it calls [Main] from its TestMain.
package etcdtest
