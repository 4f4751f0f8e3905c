// The client of pyptx's language server: it starts `pyptx lsp`, and says what to do where that command is missing.

import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node";

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("pyptx.restart", restart),
    vscode.commands.registerCommand("pyptx.showMachineCode", showMachineCode),
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

// The machine code of the entry at the cursor, or of the first one, next to the PTX.
async function showMachineCode(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (!client || editor?.document.languageId !== "ptx") {
    void vscode.window.showInformationMessage("Machine code is shown for an open PTX file while the language server runs.");
    return;
  }
  const text = editor.document.getText();
  const entries = [...text.matchAll(/\.entry\s+([\w$%]+)/g)];
  const at = editor.selection ? editor.document.offsetAt(editor.selection.active) : 0;
  const entry = entries.filter((e) => e.index <= at).at(-1) ?? entries[0];
  if (!entry) {
    void vscode.window.showInformationMessage("This file has no entry.");
    return;
  }
  const parameters = { command: "pyptx.sass", arguments: [editor.document.uri.toString(), entry[1]] };
  const content = await client.sendRequest<string | null>("workspace/executeCommand", parameters);
  if (content === null) return; // the server has said why
  const shown = await vscode.workspace.openTextDocument({ language: "sass", content });
  await vscode.window.showTextDocument(shown, vscode.ViewColumn.Beside, true);
}

async function start(): Promise<void> {
  const [command, ...args] = vscode.workspace.getConfiguration("pyptx").get<string[]>("command", ["pyptx", "lsp"]);
  if (!command) {
    void vscode.window.showErrorMessage("pyptx.command is empty: it must be the command that starts the language server.");
    return;
  }
  const server: ServerOptions = { command, args };
  const options: LanguageClientOptions = { documentSelector: ["ptx", "python", "cuda-cpp"].map((language) => ({ language })) };
  const started = new LanguageClient("pyptx", "PTX", server, options);
  try {
    await started.start();
    client = started;
  } catch (error) {
    const hint = "Install pyptx with its extra `lsp`, or set pyptx.command to the command's full path.";
    void vscode.window.showErrorMessage(`The PTX language server did not start (${command}): ${String(error)}. ${hint}`);
  }
}
