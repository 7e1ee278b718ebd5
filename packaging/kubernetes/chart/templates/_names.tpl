{{- define "redlock.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{- define "redlock.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "redlock.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- /* What each client mounts at /etc/redlock: the configuration, and the password in a file that may change at any time. */ -}}
{{- define "redlock.clientVolume" -}}
name: redlock
projected:
  defaultMode: 0440
  sources:
    - configMap:
        name: {{ .Release.Name }}
    - secret:
        name: {{ .Values.secret }}
        items:
          - key: password
            path: password
    {{- with .Values.tls.secretName }}
    - secret:
        name: {{ . }}
        items:
          - key: ca.crt
            path: ca.crt
    {{- end }}
{{- end }}
