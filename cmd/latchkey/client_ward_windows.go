package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

const otherSystems = `On Windows this is weaker: the command and all that it starts are ended at once, without SIGTERM, and while latchkey itself is suspended nobody ends them. Ctrl-C reaches the command from the console; no other signal is passed on.

`

// ward is the command that runs under the lock, in a job: whatever it starts ends with it, and all of it with this process.
type ward struct {
	wardSpec
	reports chan notice
	late    <-chan time.Time // nothing is ever late here

	cmd    *exec.Cmd
	job    windows.Handle
	ending atomic.Bool
}

// notice is what becomes of the command.
type notice struct{ Ended *commandEnd }

func startWard(spec wardSpec) (*ward, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a job for the command: %w", err)
	}
	w := &ward{wardSpec: spec, reports: make(chan notice, 1), job: job}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		w.close()
		return nil, fmt.Errorf("limit the command's job: %w", err)
	}
	w.cmd = &exec.Cmd{Path: spec.path, Args: spec.args, Env: spec.env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := w.cmd.Start(); err != nil {
		w.close()
		return nil, err
	}
	if err := w.join(); err != nil {
		w.cmd.Process.Kill()
		w.cmd.Wait()
		w.close()
		return nil, fmt.Errorf("put the command into its job: %w", err)
	}
	go w.wait()
	return w, nil
}

// join puts the command into the job. What it has started before that, in its first moment, is not in it.
func (w *ward) join() error {
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(w.cmd.Process.Pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(process)
	return windows.AssignProcessToJobObject(w.job, process)
}

func (w *ward) wait() {
	var end commandEnd
	if err := w.cmd.Wait(); w.cmd.ProcessState == nil {
		end.Code, end.Failure = exitBadEnd, "could not be waited for: "+err.Error()
	} else {
		end.Code = w.cmd.ProcessState.ExitCode()
	}
	end.InTime = !w.ending.Load()
	w.reports <- notice{&end}
}

// held has nothing to tell: the lock's own clock is the only one here.
func (w *ward) held() {}

// end ends the command: the lock is held no more.
func (w *ward) end() {
	w.ending.Store(true)
	windows.TerminateJobObject(w.job, exitLost)
}

// signal has nothing to do: the console has told the command too.
func (w *ward) signal(os.Signal) {}

func (w *ward) heard(notice) {}

// forsaken does not come about: the reports do not end before the command does.
func (w *ward) forsaken() commandEnd { return commandEnd{Code: exitBadEnd} }

func (w *ward) close() { windows.CloseHandle(w.job) }
