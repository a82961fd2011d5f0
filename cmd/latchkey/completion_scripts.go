package main

// In each script the words before the cursor choose the command: the first two that are no flags, as the path has two words
// at most and comes first.

const bashScript = `# Completion of latchkey for bash.
_latchkey() {
	local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path= flags= commands= i
	if [[ $current == = ]]; then current=; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$path ${COMP_WORDS[i]}" in
{{- range .All}}{{if .Path}}
		'{{.Parent}} {{.Name}}') path='{{.Path}}' ;;
{{- end}}{{end}}
{{- range .All}}{{if .Runs}}
		'{{.Path}} --')
			if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); else COMPREPLY=($(compgen -c -- "$current" | sort -u)); fi
			return ;;
{{- end}}{{end}}
		esac
	done
	case "$path $before" in
{{- range .All}}{{$path := .Path}}{{range .Flags}}{{if .Choices}}
	'{{$path}} --{{.Name}}') COMPREPLY=($(compgen -W '{{range .Choices}}{{.}} {{end}}' -- "$current")); return ;;
{{- else if .Takes}}
	'{{$path}} --{{.Name}}') COMPREPLY=(); return ;;
{{- end}}{{end}}{{end}}
	esac
	case $path in
{{- range .All}}
	'{{.Path}}') commands='{{range .Children}}{{.Name}} {{end}}' flags='{{range .Flags}}--{{.Name}} {{end}}' ;;
{{- end}}
	esac
	if [[ $current == -* ]]; then
		COMPREPLY=($(compgen -W "$flags" -- "$current"))
	else
		COMPREPLY=($(compgen -W "$commands" -- "$current"))
	fi
}
complete -o bashdefault -o default -F _latchkey latchkey
`

const zshScript = `#compdef latchkey
# Completion of latchkey for zsh.
_latchkey() {
	local path_= i before=${words[CURRENT-1]}
	local -a below flags
	for ((i = 2; i < CURRENT; i++)); do
		case "$path_ ${words[i]}" in
{{- range .All}}{{if .Path}}
		'{{.Parent}} {{.Name}}') path_='{{.Path}}' ;;
{{- end}}{{end}}
{{- range .All}}{{if .Runs}}
		'{{.Path}} --') shift $i words; ((CURRENT -= i)); _normal -p latchkey; return ;;
{{- end}}{{end}}
		esac
	done
	case "$path_ $before" in
{{- range .All}}{{$path := .Path}}{{range .Flags}}{{if .Choices}}
	'{{$path}} --{{.Name}}') compadd -- {{range .Choices}}{{.}} {{end}}; return ;;
{{- else if .Takes}}
	'{{$path}} --{{.Name}}') _files; return ;;
{{- end}}{{end}}{{end}}
	esac
	case $path_ in
{{- range .All}}
	'{{.Path}}')
		below=({{range .Children}}{{$help := .Help}}{{printf "%s:%s" .Name $help | quote}} {{end}})
		flags=({{range .Flags}}{{$help := .Help}}{{printf "--%s:%s" .Name $help | quote}} {{end}}) ;;
{{- end}}
	esac
	if [[ ${words[CURRENT]} == -* ]]; then
		_describe -o flag flags
	elif ((#below)); then
		_describe command below
	else
		_files
	fi
}
if [[ ${funcstack[1]} == _latchkey ]]; then _latchkey "$@"; else compdef _latchkey latchkey; fi
`

const fishScript = `# Completion of latchkey for fish.
function __latchkey_path
	set -l path ''
	for word in (commandline -opc)[2..-1]
		switch "$path $word"
{{- range .All}}{{if .Path}}
			case '{{.Parent}} {{.Name}}'
				set path '{{.Path}}'
{{- end}}{{end}}
{{- range .All}}{{if .Runs}}
			case '{{.Path}} --'
				set path '{{.Path}} --'
{{- end}}{{end}}
		end
	end
	test "$path" = "$argv[1]"
end
{{- range .All}}{{$path := .Path}}
{{- if .Children}}
complete -c latchkey -n "__latchkey_path '{{$path}}'" -f
{{- range .Children}}
complete -c latchkey -n "__latchkey_path '{{$path}}'" -a {{.Name}} -d {{quote .Help}}
{{- end}}{{end}}
{{- range .Flags}}
complete -c latchkey -n "__latchkey_path '{{$path}}'" -l {{.Name}}{{if .Short}} -s {{.Short}}{{end}}{{if .Takes}} -r{{end}}{{if .Choices}} -f -a '{{range .Choices}}{{.}} {{end}}'{{end}} -d {{quote .Help}}
{{- end}}
{{- if .Runs}}
complete -c latchkey -n "__latchkey_path '{{$path}} --'" -a '(__fish_complete_subcommand)'
{{- end}}{{end}}
`
