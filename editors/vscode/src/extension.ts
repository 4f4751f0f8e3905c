// The client of pyptx's language server: it starts `pyptx lsp`, and says what to do where that command is missing.

import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node";

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("pyptx.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("pyptx.command")) void restart();
    }),
  );
  await start();
}

export async function deactivate(): Promise<void> {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function restart(): Promise<void> {
  await deactivate();
  await start();
}

async function start(): Promise<void> {
  const [command, ...args] = vscode.workspace.getConfiguration("pyptx").get<string[]>("command", ["pyptx", "lsp"]);
  if (!command) {
    void vscode.window.showErrorMessage("pyptx.command is empty: it must be the command that starts the language server.");
    return;
  }
  const server: ServerOptions = { command, args };
  const options: LanguageClientOptions = { documentSelector: [{ language: "ptx" }] };
  const started = new LanguageClient("pyptx", "PTX", server, options);
  try {
    await started.start();
    client = started;
  } catch (error) {
    const hint = "Install pyptx with its extra `lsp`, or set pyptx.command to the command's full path.";
    void vscode.window.showErrorMessage(`The PTX language server did not start (${command}): ${String(error)}. ${hint}`);
  }
}
